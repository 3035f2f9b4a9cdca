"""The work between a model and its tools, for every agent type.

attempts.py           retries a model call, or asks a fallback model, if nothing of its response was seen
circuit.py            skips a model that keeps failing
context_reduction.py  shortens a conversation that is too long for its model
prompt.py             the system prompt
client_words.py       the client's instructions, context and state as a user message
tool_calls.py         parses and checks a call's arguments
tool_turn.py          runs, refuses or leaves open the calls of a response
tool_executions.py    runs calls of backend tools
tool_failures.py      the error text for a tool that raised an exception
state_changes.py      sends viewers the changes of the shared state
iteration_limit.py    ends or sums up a run that has used up its iterations
resumption.py         continues a model call that outlived its process
"""
