"""OpenAI's API in front of the gateway's agents: Chat Completions and Responses.

ids.py           ids that lead back to their run
errors.py        OpenAI's errors
fields.py        the members of a body
content.py       texts and media of messages and results; tools.py: a request's own tools; generation.py: how to answer
media_out.py     media that a model made, as markdown; usage.py: tokens; backend_tools.py: tools' work as text
chat_messages.py what a run said, as Chat Completions' one message; whether a client's copy is the same
chat_renderer.py a run as chunks, or as a chat completion
responses_request.py   the body of `POST /v1/responses`; responses_items.py: its input
responses_resource.py  the Response object, and the form that a run's record keeps of it
responses_renderer.py  a run as the events of a stream, or as that object; responses_output.py: its items
responses_history.py   recognises what a client replays; reasoning_envelopes.py: signed reasoning, with the store's key
responses_stored.py    responses once they have begun: read, followed, stopped, forgotten
conversations.py threads as conversations, and what requests say of them; thread_items.py: what was said, as items
response_view.py how a caller is shown runs as responses; run_events.py: what a run left on its thread, as events
item_lists.py    parts of lists of items; metadata.py: what a client notes
chat_request.py  the body of a chat completion; chat_history.py: recognises a history that is sent again
chat_input_cache.py    what was read and recognised of a thread's last request
chat_start.py    begins the run that a chat completion asks for, on its thread
responses_start.py     begins a run; responses_chain.py: what it goes on with; responses_references.py: what ids lead to
repeated_requests.py   the run that an earlier request with the same Idempotency-Key began
settings.py      what the operator decides for all callers, or for a key
routes.py        prefixes, bodies, answers and errors of the routes

Above: the protocols `chat_completions` and `responses`. Below: the words. All of it is pure, but for what its docstring
says otherwise.
https://platform.openai.com/docs/api-reference (November 2026), https://www.openresponses.org (2026-04-24)
"""
