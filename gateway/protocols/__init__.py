"""The gateway's own API, a stream that spans two protocols, and the protocols that are dropped in, one file each.

agents.py, approvals.py, runs.py, threads.py, visitors.py   the gateway's own API
ml_stream.py   ml-commons' stream, which speaks AG-UI too

Each of the other protocols has a room of its own, and ends there with its part.
"""

from typing import Final

ROOMS: Final = ("a2a", "ag_ui", "agent_api", "ml_agents", "ml_commons", "ml_memory", "openai_api")
"""Rooms of protocols that end with their parts: parts.collect looks there, too."""
