"""The gateway's agents: where they are found, where they are stored, and the form in which runs use them.

directory.py     the agents by id: those of the configuration, which a reload replaces, and those that callers made
open_agent.py    an agent whose parts are open
caller_tools.py  tools that callers run without an agent
stored.py        agents that callers made: documents of the store, opened on use

Above: runs, the runner, the composition root. Below: the contracts, documents, turns.
"""
