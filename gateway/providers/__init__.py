"""What the rooms of the vendors share.

answer_builder.py    canonical events of one answer, from what a vendor's reader finds in it
answer_reader.py     from the bytes of an answer to events, whoever the provider is
answer_body.py       what kind of body it is: records, one JSON document, a web page
sse_reader.py        server-sent events, as their bytes come in
repeated_events.py   a reader around another: takes events that differ only in their text together
error_bodies.py      errors in every shape that HTTP services write
aws_exceptions.py    the names of AWS's exceptions
failures.py          a provider's error as one of ours
failure_words.py     what operators and strangers are told of it
access.py            how a provider is reached: its address, its key
headers.py           headers of the operator's own
endpoints.py         base URLs, as operators write them
media.py             a medium, made what a provider takes or said to be left out
media_fetch.py       media that messages only point at
option_table.py      where a wire has the options of a run
tagged_reasoning.py  reasoning between two tags in a text
token_counts.py      how providers count tokens
background_tasks.py  what is done when nobody waits for it any more
"""
