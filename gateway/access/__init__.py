"""Who may come in, from where, and how much they may ask.

authentication.py   the door: every request passes it, every answer leaves through it
visitors.py         strangers on somebody's website: publishable keys, and who is behind them
callers.py          who asks: the owner of what is done, what may be seen
limits.py           how much may be asked
origins.py          which pages may use the gateway, and under which names it answers
visitor_tokens.py   how a stranger's browser is known again

Above: the composition root, which puts the door around its routes; the settings; the protocols, which ask what a caller
may. Below: problems, errors, clock.
"""
