"""AG-UI: reads clients' requests as canonical input, and writes canonical events and messages as frames.

run_requests.py     answers requests: run an agent, pick a thread up again
stream.py           a viewer's events as a stream over HTTP
events.py           events -> frames, for one client's dialect
messages.py         messages -> AG-UI's messages
input.py            RunAgentInput -> AgentInput
answers.py          a person's answer to an interrupt, and its schema
content.py          reads the content parts of messages
peer.py             the dialect that a client understands, by the protocol version that it declares
members.py          reads the members of JSON objects, and collects problems
input_cache.py      caches the messages of earlier requests
usual_messages.py   reads ordinary messages in half of the time
capabilities.py     the capabilities of an agent
endpoints.py        the routes, and the protocol as a part

Below: the words; for the stream also sse and protocol. `protocols/ml_stream.py` answers by it, too.
"""
