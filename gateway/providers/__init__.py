"""Code that the vendors' rooms share.

answer_builder.py    builds the canonical events of one answer
answer_reader.py     reads an answer's bytes, for every provider
response_body.py     the kind of a body: records, one JSON document, a web page
sse_reader.py        reads server-sent events as their bytes arrive
repeated_events.py   a reader around another: takes events that differ only in their text together
error_bodies.py      reads errors in every shape that HTTP services write
aws_exceptions.py    the names of AWS's exceptions
failures.py          a provider's error as one of ours
failure_words.py     the error's message for operators and for everybody else
access.py            how a provider is reached: its address, its key
headers.py           headers of the operator's own
endpoints.py         base URLs, as operators write them
conversions.py       logs how a request was converted
media.py             a medium in a form that a provider takes, or a note that it was left out
media_fetch.py       fetches media that messages only refer to
option_table.py      writes a run's options as a provider's parameters
tagged_reasoning.py  takes reasoning between two tags out of a text
token_counts.py      how providers count tokens
background_tasks.py  tasks that nobody waits for
"""
