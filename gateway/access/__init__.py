"""Who may come in, from where, and how much they may ask.

authentication.py   the access middleware: every request and every answer passes it
visitors.py         strangers on somebody's website: publishable keys, and who is behind them
callers.py          who asks: the owner of what is done, what may be seen
limits.py           how much may be asked
origins.py          which pages may use the gateway, and under which names it answers
visitor_tokens.py   how a stranger's browser is known again

Above: the composition root, which puts the middleware around its routes; the settings; the protocols' environment,
which checks what a caller may do. Below: problems, errors, clock.
"""
