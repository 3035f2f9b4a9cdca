"""The agents that there are, and what an agent is once its parts are open.

directory.py    the agents by id, which a reload replaces while runs go on
open_agent.py   an agent whose parts are open

Above: runs, the runner, the composition root. Below: the contracts, turns.
"""
