"""Amazon Bedrock: Converse, and the hosts of its Responses API.

converse.py          Converse's JSON, and the rules for conversations
converse_request.py  writes a model request
converse_reader.py   reads an answer
parameters.py        an agent's `model_parameters` as Converse's fields
options.py           writes a run's options
families.py          what the model families accept, as data
guardrails.py        marks what guardrails check, and reads what they found
media.py             the media that Converse takes
event_stream.py      the frames of its stream
errors.py            the meaning of its errors
responses_hosts.py   the hosts of the Responses API
signing.py           AWS credentials, the region, Signature Version 4
"""
