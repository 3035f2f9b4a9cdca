"""A2A: the gateway's agents for other agents, as tasks with messages and artifacts (1.0 and 0.3).

ids.py         ids of tasks, contexts and statuses' messages; each leads back to its run or thread
errors.py      errors as JSON-RPC and REST write them; the members of parameters
parts.py       texts, files and data, to and from content blocks
states.py      states of tasks
settings.py    the operator's settings, and the texts of cards
dialects.py    methods and objects as each version writes them
request.py     a client's message, with its answers and tools
tasks.py       a task, made of its runs' records and events
cards.py       agents' cards
renderer.py    a task as a stream's frames, as one body, or as push notifications
jsonrpc.py     calls of JSON-RPC and their answers
rest.py        parameters in queries
routes.py      paths, headers and answers of both bindings*
stored_tasks.py   tasks that have begun, found by their runs*
push_configs.py   where a task's updates are posted, with sealed secrets*
push_delivery.py  posts them, and once more after a restart*
start.py       begins the run that a message asks for*
send.py        answers messages, and lets clients watch tasks*
task_list.py   pages of a caller's tasks*
push_methods.py   the methods on push notification configs*
shown_cards.py    which card a caller is shown*
methods.py     the methods*
endpoints.py   the routes, and the protocol as a part*

Files with a * are not pure: they ask the protocols' environment, keep something, or know the web framework. Below:
protocol, the words. https://a2a-protocol.org/latest/specification/
"""
