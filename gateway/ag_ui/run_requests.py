"""Answers AG-UI's requests, on whichever path they come: run an agent, pick a thread up again.

Below: input_cache, stream, protocol. Above: the protocols that take AG-UI.
"""

from __future__ import annotations

from typing import Final

from gateway.access.callers import Caller
from gateway.ag_ui.input_cache import InputCache
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.stream import event_stream
from gateway.errors import ConflictError
from gateway.history.merging import StaleHistoryError
from gateway.protocol import ProtocolEnvironment
from gateway.sse import EventStreamResponse

ORIGIN: Final = "ag_ui"

# The most messages in a refusal that shows the client what it missed; the next request gets the rest.
_MOST_MISSING: Final = 500


class RunRequests:
    """Answers requests whose bodies are RunAgentInputs. Each method raises as ProtocolEnvironment's."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._inputs = InputCache()

    async def run(self, caller: Caller, agent_id: str, body: bytes, request_id: str) -> EventStreamResponse:
        """The stream of a run: a new one, or the one that this request began before."""
        environment = self._environment
        given, profile = await self._inputs.parse(
            caller.owner, body, environment.time, request_id=request_id, origin=ORIGIN
        )
        try:
            viewer = await environment.start(caller, agent_id, given)
        except StaleHistoryError as error:
            after, unseen = error.unseen
            missing = ag_ui_messages(unseen[:_MOST_MISSING], profile)
            members = {"after": after, "missing": missing}
            raise ConflictError(error.message, code=error.code, members=members) from None
        return event_stream(environment, caller, viewer, profile, given.thread.id, given.run_id)

    async def connect(self, caller: Caller, agent_id: str, body: bytes) -> EventStreamResponse:
        """The stream of a thread: its messages, then its live run, or the end of its last run."""
        environment = self._environment
        given, profile = await self._inputs.parse(caller.owner, body, environment.time, watches=True)
        viewer = await environment.connect(caller, agent_id, given)
        run_id = given.run_id if viewer.prelude is None else viewer.prelude.run_id
        return event_stream(environment, caller, viewer, profile, given.thread.id, run_id)
