"""For programs that write or read bodies and frames of the Agent API. The gateway itself imports none of it.

schemas.py           the protocol's words and models
content_builder.py   builds one content of a message
builder.py           builds a response and its messages

`gateway.agent_api` has all public names. Below: the grammar, deltas and ids of `agent_api`.
"""
