"""OpenAI's API in front of the gateway's agents: Chat Completions, Responses and conversations.

Shared by both protocols:

ids.py           ids that lead back to their run
errors.py        errors in OpenAI's form
settings.py      the operator's settings, for all callers or for a key
fields.py        the members of a body
content.py       texts and media of messages and of tools' results
tools.py         a request's own tools, and which of them the model may call
generation.py    generation options
metadata.py      a client's notes on a request or a conversation
media_out.py     media as markdown
usage.py         the tokens of a run
header_threads.py   the thread that a header names*
routes.py        prefixes, bodies, answers and headers of the routes*

Chat Completions:

chat_request.py        the body
chat_messages.py       a run's output as one message; whether a client's copy of it is the same
chat_history.py        recognises a history that is sent again
chat_start.py          begins the run, on its thread*
backend_tools.py       backend tools' work as text
chat_renderer.py       a run as chunks, or as a chat completion

Responses:

responses_request.py   the body
responses_items.py     the items of its input
includes.py            the words of `include`
responses_history.py   recognises items that are sent again
responses_chain.py     the run or conversation that a request continues*
responses_references.py   the items and questions that ids in its items name*
reasoning_envelopes.py    signed reasoning, with the store's key*
responses_start.py     begins the run*
responses_resource.py  the Response object, and the part of it that a run's record keeps
responses_output.py    the items of its output
responses_renderer.py  a run as the events of a stream, or as that object
responses_stored.py    responses that have begun: read, followed, stopped, forgotten*

Conversations, and runs whose log is gone:

response_view.py       how a caller is shown a run of any protocol as a response*
thread_items.py        a thread's messages as items
item_lists.py          parts of lists of items
conversations.py       threads as conversations, and the bodies of requests for them

The routes, and the protocols as parts*: chat_endpoints.py, responses_endpoints.py, stored_response_endpoints.py,
conversation_endpoints.py and model_endpoints.py.

Files with a * are not pure: they ask the protocols' environment, keep something, or know the web framework. Below:
protocol, the words.
https://platform.openai.com/docs/api-reference (November 2026), https://www.openresponses.org (2026-04-24)
"""
