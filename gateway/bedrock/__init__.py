"""Amazon Bedrock: Converse, and the hosts of its Responses API.

converse.py          Converse's JSON, and the rules that a conversation has to keep
converse_request.py  writes a model request
converse_reader.py   reads an answer
parameters.py        an agent's `model_parameters` as its fields
options.py           a run's options in its words
families.py          what the model families accept, as data
guardrails.py        what guardrails look at, and what they found
media.py             the media that Converse takes
event_stream.py      the frames of its stream
errors.py            what its errors mean
responses_hosts.py   where the Responses API is served
signing.py           AWS credentials, the region, Signature Version 4
"""
