"""Several gateways that share one store: requests go to the gateway that has the thread.

hops.py           around the routes: a request that meets a thread of another gateway is sent there, or done again here
kept_request.py   a request that can be done again, until its answer begins
entry.py          around everything: a request that another gateway has sent on comes in as its client sent it
signatures.py     the header by which a gateway knows such a request

Above: the composition root. Below: access, protocol, http_client; store (the contract of gateways), metrics.
"""
