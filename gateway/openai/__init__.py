"""OpenAI's two APIs: chat completions and Responses.

chat_completions.py      facts of the chat completions wire: dialects, names, errors, token counts
chat_options.py          a run's options in its words
chat_request.py          writes a model request
chat_reader.py           reads an answer
streamed_calls.py        assembles tool calls from their fragments
responses.py             facts of the Responses wire
responses_options.py     a run's options in its words
responses_request.py     writes a model request
responses_reader.py      reads one response
responses_output.py      its output items as events
responses_items.py       finds the item of an event
responses_model.py       a model behind the Responses API, at any provider
responses_background.py  a response that goes on if the connection is lost
responses_stored.py      the responses that a provider keeps
"""
