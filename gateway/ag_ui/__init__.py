"""AG-UI's words: what a client sends as canonical input, canonical events and messages as its frames.

stream.py           a viewer's events as a stream over HTTP
events.py           events -> frames, for one client's dialect
messages.py         messages -> AG-UI's messages
input.py            RunAgentInput -> AgentInput
answers.py          what answers an interrupt, and what asks for that
content.py          the parts of its messages' content
peer.py             what a client can be sent, by the protocol version that it declares
members.py          the members of any object of it, and what is wrong with them
input_cache.py      input whose first messages came with an earlier request, read without them
usual_messages.py   messages as nearly all of them are, read in half of the time
capabilities.py     what an agent can do
shapes.py           its types, as the API document describes them

Above: the protocols that speak AG-UI (`protocols/ag_ui.py` has the routes). Below: the words; for the stream, sse and
what a protocol is.
"""
