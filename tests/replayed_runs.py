"""Real runs of every kind, which renderers show to who watches, who comes back and who comes late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.agents.open_agent import OpenAgent
from gateway.messages import ToolSpec
from gateway.protocol.renderer import Renderer, rendered_stream
from gateway.runs.viewer import Viewer
from gateway.sse import OpenStreams
from tests.case_tools import PIXEL
from tests.loop_runs import adder, tool_giving
from tests.runner_scene import OWNER, Scene, agent_of
from tests.test_renderer import streamed

PICK: Final = ToolSpec("pick", "Pick one.", {})
ADD: Final = {"tool": "add", "arguments": {"a": 2, "b": 3}}

SCRIPTS: Final[Mapping[str, Sequence[Sequence[dict[str, Any]]]]] = {
    "text": [[{"text": "hello there", "chunk_characters": 4}]],
    "reasoning": [[{"reasoning": "Hm, well.", "chunk_characters": 3}, {"text": "So."}]],
    "tools": [[{"text": "I look."}, ADD, ADD], [{"text": "It is {{result}}."}]],
    "client tool": [[{"text": "Tell me."}, ADD, {"tool": "pick"}]],
    "approval": [[{"text": "One moment."}, {"tool": "refund", "arguments": {"order": "1"}}, ADD]],
    "medium": [[{"text": "Look:"}, {"medium": PIXEL}, {"text": "Nice."}]],
    "refusal": [[{"text": "I will not.", "refusal": True, "chunk_characters": 3}]],
    "retraction": [[{"text": "A secret.", "chunk_characters": 3}, {"retract": "No."}]],
    "cut off": [[{"text": "As long as"}, {"stop": "max_tokens"}]],
    "failure": [[{"text": "so far", "chunk_characters": 2}, {"error": "overloaded"}]],
}


def acting(script: str) -> OpenAgent:
    """The agent `a`, which plays that script."""
    return agent_of("a", SCRIPTS[script], (adder(), "never"), (tool_giving("refund", "refunded"), "always"))


async def attached(scene: Scene) -> Viewer:
    """A viewer of the run `r` from its first event on."""
    viewer = await scene.runner.attach(OWNER, "r", after=0)
    assert viewer is not None
    return viewer


async def frames_seen(viewer: Viewer, renderer: Renderer[object], *, after: int = 0) -> list[bytes]:
    """The frames that a client gets, each with the empty line at its end."""
    response = rendered_stream(viewer, renderer, OpenStreams(heartbeat_seconds=None), after=after)
    body = b"".join(await streamed(response))
    return [frame + b"\n\n" for frame in body.split(b"\n\n")[:-1]]
