"""What every agent type needs between its model and its tools.

attempts.py           asks a model again, or another one, while nothing of an answer was seen
circuit.py            leaves a model alone that failed time after time
context_reduction.py  shortens a conversation that has grown too long for its model
prompt.py             what a model is told beside the messages
client_words.py       what a client says beside its user's words
tool_calls.py         from the JSON text that a model wrote to arguments that fit the tool's schema
tool_turn.py          what becomes of an answer's calls before the model is asked again
tool_executions.py    calls of backend tools under way
tool_failures.py      what is told of a tool whose code raised an exception
state_changes.py      how viewers learn what tools did to the shared state
resumption.py         a model call that outlived its process
"""
