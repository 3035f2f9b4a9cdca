"""A viewer's events as an AG-UI stream over HTTP.

Below: events, sse, viewers. Above: the protocols that show runs as AG-UI.
"""

from __future__ import annotations

from gateway.access.callers import Caller
from gateway.ag_ui.events import Renderer
from gateway.ag_ui.peer import PeerProfile
from gateway.protocol import ProtocolEnvironment, Viewer
from gateway.sse import EventStreamResponse, RunFrames


def event_stream(
    environment: ProtocolEnvironment, caller: Caller, viewer: Viewer, profile: PeerProfile, thread_id: str, run_id: str
) -> EventStreamResponse:
    """The response with the viewer's events, in the client's dialect."""
    renderer = Renderer(profile, thread_id, run_id, viewer.log_id, to_operator=environment.is_operators(caller))
    prelude = b""
    try:
        if (shown := viewer.prelude) is not None:
            prelude = renderer.prelude(shown.messages, shown.state, shown.open_items)
        if (there := viewer.take()) is not None:
            prelude += renderer.render(there.events, there.first)
    except BaseException:  # nobody else would close the viewer, and a run with a viewer never counts as abandoned
        viewer.close()
        raise
    return EventStreamResponse(RunFrames(viewer, renderer.render), environment.streams, opening=prelude)
