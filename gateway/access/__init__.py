"""Who may use the gateway, from where, and how much.

authentication.py   the access middleware around every request and every answer
api_keys.py         whose key it is, sent as a bearer or as a password
visitors.py         visitors of websites: publishable keys and visitors' tokens
callers.py          who asks: the owner of threads and runs, and what it may use
limits.py           quotas
origins.py          allowed origins and host names
visitor_tokens.py   the format of visitors' tokens

Above: the composition root, which puts the middleware around its routes; the settings; the protocols' environment,
which checks what a caller may do. Below: problems, errors, clock.
"""
