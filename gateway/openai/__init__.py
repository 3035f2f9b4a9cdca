"""OpenAI's two APIs, and what speaks them: chat completions and Responses.

chat_completions.py      facts of the chat completions wire: dialects, names, errors, token counts
chat_options.py          a run's options in its words
chat_request.py          writes a model request
chat_reader.py           reads an answer
streamed_calls.py        tool calls, put together from their fragments
responses.py             facts of the Responses wire
responses_options.py     a run's options in its words
responses_request.py     writes a model request
responses_reader.py      reads one response
responses_output.py      what its output items say, as events
responses_items.py       the items, however a server names them
responses_model.py       a model behind the Responses API, wherever it stands
responses_background.py  a response that the provider works on when nobody listens
responses_stored.py      what a provider keeps of responses
"""
