"""Outgoing HTTP: to endpoints that the operator configured, and to URLs that callers and models name.

clients.py            the one client per endpoint: calls, and streamed answers
fetcher.py            fetches URLs of callers and models under the fetch policy
endpoint_policy.py    which endpoints models and tools of callers may reach
fetch_policy.py       which URLs, addresses and redirects are allowed
special_addresses.py  address ranges without public servers
transport_errors.py   the transport's exceptions as the gateway's errors

Above: the models and the tools. Below: deadline, clock, errors; agent (its time limits).
"""
