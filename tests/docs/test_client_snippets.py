"""The snippets for clients talk to a real gateway: curl's line, HttpAgent's, and those for the widget."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gateway.ag_ui.events import Renderer
from gateway.ag_ui.peer import PeerProfile
from gateway.events import MediaGiven
from gateway.messages import Base64Source, ImageBlock
from gateway.settings import example_configuration
from tests.agui_client import CLIENT_VERSIONS, HARNESS, find_node
from tests.documentation import snippet
from tests.running_gateway import DEADLINE_SECONDS, agent, local_gateway, parse_frames, scripted

pytestmark = pytest.mark.thorough

ADDRESS = "http://127.0.0.1:8000"
DEMONSTRATION: list[dict[str, Any]] = yaml.safe_load(example_configuration())["agents"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_curl_line_runs_the_demonstration_and_again_shows_the_same(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        line = snippet("README.md", "sh", "curl").replace(ADDRESS, gateway.client.base_url)
        first, again = [await output("sh", "-c", line, directory=tmp_path) for _ in range(2)]

    frames = parse_frames(first)
    assert frames[-1].type == "RUN_FINISHED"
    assert "3,519,000" in "".join(frame.data.get("delta", "") for frame in frames)
    assert parse_frames(again) == frames


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
async def test_the_http_agent_snippet_gets_an_answer(version: str, tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        code = snippet("docs/clients.md", "ts", "agent.addMessage").replace(ADDRESS, gateway.client.base_url)
        install_client(tmp_path, version)
        messages = await run_module(tmp_path, f"{code}\nconsole.log(JSON.stringify(agent.messages));")

    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["content"]


async def test_the_lines_for_a_stream_of_ml_commons_get_an_answer(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        line = snippet("docs/ml-commons.md", "sh", "_execute/stream").replace(ADDRESS, gateway.client.base_url)
        chunks = await output("sh", "-c", line, directory=tmp_path)
        code = snippet("docs/ml-commons.md", "ts", "_execute/stream").replace(ADDRESS, gateway.client.base_url)
        install_client(tmp_path, "1.0.0")
        messages = await run_module(tmp_path, f"{code}\nconsole.log(JSON.stringify(agent.messages));")

    told = [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks.strip().split(b"\n\n")]
    responses = [each["inference_results"][0]["output"][2]["dataAsMap"] for each in told]
    assert "3,519,000" in "".join(each["content"] for each in responses)
    assert [each["is_last"] for each in responses] == [False] * (len(responses) - 1) + [True]
    assert "3,519,000" in messages[-1]["content"]


async def test_the_snippet_that_stops_a_run_cancels_it(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("hangs", scripted([{"text": "One moment"}, {"hang": True}]))]) as gateway:
        code = snippet("docs/clients.md", "js", "/cancel")
        install_client(tmp_path, "1.0.0")
        stopping = f"""
            import {{ HttpAgent }} from "@ag-ui/client";
            const agent = new HttpAgent({{ url: "{gateway.client.base_url}/agents/hangs/run", threadId: "t1" }});
            agent.addMessage({{ id: "u1", role: "user", content: "Hello" }});
            const seen = {{ onTextMessageContentEvent: () => stop(agent, "r1") }};
            await agent.runAgent({{ runId: "r1" }}, seen).catch(() => undefined);
            console.log("[]");
        """
        await run_module(tmp_path, code + stopping)
        run = (await gateway.client.http.get("/runs/r1")).json()

    assert run["status"] == "cancelled"


async def test_the_snippet_for_several_tabs_deletes_nothing(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        code = snippet("docs/clients.md", "js", "stale_history")
        install_client(tmp_path, "1.0.0")
        tabs = f"""
            import {{ HttpAgent }} from "@ag-ui/client";
            const url = "{gateway.client.base_url}/agents/assistant/run";
            const [one, other] = [1, 2].map(() => new HttpAgent({{ url, threadId: "shared" }}));
            await ask(one, {{ id: "u1", role: "user", content: "Hello" }});
            await ask(other, {{ id: "u2", role: "user", content: "Hello again" }});
            await ask(one, {{ id: "u3", role: "user", content: "And again" }});
            console.log(JSON.stringify(one.messages));
        """
        messages = await run_module(tmp_path, code + tabs)

    assert [message["id"] for message in messages if message["role"] == "user"] == ["u1", "u2", "u3"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3


async def test_the_widget_snippets_fit_together(tmp_path: Path) -> None:
    """With a stand-in for the browser: the page's own calls are made, the widget's side is tried in a real browser
    elsewhere."""
    tag = snippet("docs/website.md", "html", "widget.js")
    code = snippet("docs/website.md", "js", "registerTool")
    browser = """
        const chat_ = { tools: [], registerTool(tool) { this.tools.push(tool); } }, cart = { text: "", add: () => 1 };
        globalThis.customElements = { whenDefined: async (name) => name };
        globalThis.document = { querySelector: () => chat_, addEventListener: (type) => (chat_.heard = type) };
    """
    show = "console.log(JSON.stringify([chat.tools[0].handler({ product: 1 }), chat.context(), chat_.heard]));"
    said = await run_module(tmp_path, f"{browser}\n{code}\n{show}")

    assert 'type="module"' in tag
    assert said == [1, [{"description": "The cart", "value": ""}], "agui-chat:message"]


def install_client(directory: Path, version: str) -> None:
    (directory / "node_modules" / "@ag-ui").mkdir(parents=True)
    (directory / "node_modules" / "@ag-ui" / "client").symlink_to(HARNESS.parent / "node_modules" / f"client-{version}")


async def run_module(directory: Path, code: str) -> list[Any]:
    """The JSON list that a module prints last."""
    (directory / "snippet.mjs").write_text(code, "utf-8")
    printed = await output(str(find_node()), "snippet.mjs", directory=directory)
    return cast(list[Any], json.loads(printed.splitlines()[-1]))


async def output(*command: str, directory: Path) -> bytes:
    """What a command prints; it has to end well and in time."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return printed


def test_the_snippet_of_a_medium_is_what_clients_get() -> None:
    told = json.loads(snippet("docs/clients.md", "json", "agui_gateway.media"))
    given = MediaGiven(told["messageId"], ImageBlock(Base64Source("iVBORw0KGgo=", "image/png")))
    (frame,) = parse_frames(Renderer(PeerProfile.FULL, "t", "r").render([given], 1))
    assert frame.data == told
