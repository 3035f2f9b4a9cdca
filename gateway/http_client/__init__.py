"""HTTP to the outside: to endpoints that the operator named, and to URLs that callers and models name.

clients.py            the one client per endpoint: calls, and answers that stream
fetcher.py            what somebody named, got under the fetch policy
fetch_policy.py       which URLs, which addresses, which redirects
special_addresses.py  address ranges that are not for everybody's servers
transport_errors.py   what a transport's failures mean

Above: the models and the tools. Below: deadline, clock, errors; agent (its time limits).
"""
