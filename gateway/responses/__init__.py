"""What the models behind the Responses API share, wherever it stands.

model.py          the model: a request goes out, its response comes in, in the foreground or in the background
background.py     a response that the provider works on when nobody listens
stored.py         what the provider keeps: deleted or stopped when nobody waits
reader.py         a response's stream -> canonical events
output.py         the events of its output items
output_items.py   which item an event is about

Above: `models/openai_responses.py` and its neighbours, which say where the API is and how it is entered. Below: the
request's writer, answer_reader, the HTTP client; the wire's facts are in `wire/openai_responses.py`.
"""
