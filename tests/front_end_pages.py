"""The front ends that people build with: real packages, bundled into pages, before a real gateway.

Below: `front_ends/`, an npm package of its own, and the pages of the examples, which are what is bundled and run.
Nothing leaves the machine: the servers' processes cannot speak to others, and the browser knows no host but 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.agui_client import find_node
from tests.documentation import EXAMPLES, LEFT_BY_EXAMPLES, example, snippet
from tests.missing_parts import missing_part
from tests.running_gateway import ADDRESS as LISTENING
from tests.running_gateway import DEADLINE_SECONDS, agent, scripted

FRONT_ENDS: Final = Path(__file__).parent / "front_ends"
ADDRESS: Final = "http://127.0.0.1:8000"  # of the gateway, in the examples
ONLY_LOOPBACK: Final = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
# Refunds once a person agrees, speaks slowly when asked to, suggests what to ask where it has to.
REFUNDING: Final[Mapping[str, Any]] = agent(
    "assistant",
    scripted(
        [{"text": "I heard: {{user}}"}],
        rules=[
            {"when": {"tool_choice": "copilotkitSuggest"}, "response": [{"tool": "copilotkitSuggest", "arguments": {
                "suggestions": [{"title": "Ask about tents", "message": "Which tents are there?"}]}}]},
            {"when": {"last_user_contains": "slowly"}, "response": [
                {"text": "One word after the other.", "chunk_characters": 1, "delta_seconds": 0.1}]},
            {"when": {"last_user_contains": "refund", "turn": 0}, "response": [
                {"tool": "refund", "arguments": {"order_id": "1234", "amount": 99}}]},
            {"when": {"after_tool": "refund"}, "response": [{"text": "It said: {{result}}"}]},
        ],
    ),
    tools=[
        {
            "type": "PythonTool",
            "name": "refund",
            "parameters": {"function": "gateway.sample_tools:refund"},
            "approval": "always",
        }
    ],
)  # fmt: skip
_MODULES: Final = FRONT_ENDS / "node_modules"
# A copy of the pages' sources for each process that runs tests, with the addresses that a test has.
_SOURCES: Final = FRONT_ENDS / "build" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
_COPILOTKIT: Final = _SOURCES / "copilotkit"
_PAGES: Final = _SOURCES / "pages"
_QUIET: Final = {"COPILOTKIT_TELEMETRY_DISABLED": "true", "DO_NOT_TRACK": "1"}
_BUNDLE: Final = (
    "--bundle", "--splitting", "--format=esm", "--loader:.woff2=empty", "--loader:.woff=empty", "--loader:.ttf=empty",
    '--define:process.env.NODE_ENV="production"', "--log-level=error", f"--outdir={_PAGES}",
)  # fmt: skip
_BUILD_SECONDS: Final = 100.0


@cache
def written_sources() -> Path:
    """The folder with the pages of the examples, which ask the gateway that they come from.

    CopilotKit's runtime is there a second time, with the agent of 1.0.0 that docs/clients.md shows.
    """
    if not _MODULES.is_dir():
        missing_part("the front ends are not installed here; 'make clients' installs them")
    shutil.rmtree(_SOURCES, ignore_errors=True)
    shutil.copytree(EXAMPLES / "copilotkit/page", _COPILOTKIT, ignore=LEFT_BY_EXAMPLES)
    shutil.copytree(EXAMPLES / "assistant-ui/page", _SOURCES / "assistant-ui", ignore=LEFT_BY_EXAMPLES)
    for file in ("assistant-ui/page/main.tsx", "assistant-ui/page/history.ts"):
        assert ADDRESS in example(file)
        (_SOURCES / "assistant-ui" / Path(file).name).write_text(example(file).replace(ADDRESS, ""), "utf-8")
    runtime = example("copilotkit/page/runtime.ts")
    agent = snippet("docs/clients.md", "ts", "maxProtocolVersion").replace('"@ag-ui/client"', '"client-1.0.0"')
    made = "new HttpAgent({ url: `${agents}/assistant/run` })"
    assert made in runtime
    newer = runtime.replace(made, made.replace("HttpAgent", "CopilotKitAgent") + " as never")
    (_COPILOTKIT / "agent.ts").write_text(agent, "utf-8")
    (_COPILOTKIT / "runtime-1.0.0.ts").write_text(f'import {{ CopilotKitAgent }} from "./agent";\n{newer}', "utf-8")
    return _SOURCES


@cache
def bundled_pages() -> Path:
    """The folder with all pages' scripts."""
    written_sources()
    _run("esbuild", *_BUNDLE, *(f"{page}={page}/main.tsx" for page in ("assistant-ui", "copilotkit")))
    return _PAGES


def type_complaints() -> str:
    """What the type checker says of the pages and CopilotKit's runtimes, with the real packages."""
    written_sources()
    return "".join(_run("tsc", "--project", page, check=False) for page in ("assistant-ui", "copilotkit"))


@contextlib.asynccontextmanager
async def copilotkit_runtime(gateway: str, name: str = "runtime") -> AsyncGenerator[str]:
    """CopilotKit's runtime as the example has it, before that gateway; its address."""
    written_sources()
    code = (_COPILOTKIT / f"{name}.ts").read_text("utf-8")
    for documented, real in ((ADDRESS, gateway), ("listen(3000)", 'listen(0, "127.0.0.1")')):
        assert documented in code
        code = code.replace(documented, real)
    started = _COPILOTKIT / "started.ts"
    started.write_text(code, "utf-8")
    module = _SOURCES / "started.mjs"
    _run("esbuild", str(started), "--bundle", "--packages=external", "--platform=node", "--format=esm",
         "--log-level=error", f"--outfile={module}")  # fmt: skip
    started.unlink()
    process = await asyncio.create_subprocess_exec(
        str(find_node()), "--import", str(FRONT_ENDS / "loopback_only.mjs"), str(module),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, **_QUIET},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (found := LISTENING.search(line := await process.stdout.readline())) is None:
                assert line, "the runtime did not start"
        yield found[1].decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def _run(tool: str, *arguments: str, check: bool = True) -> str:
    ran = subprocess.run(
        [str(find_node()), str(_MODULES / ".bin" / tool), *arguments],
        cwd=_SOURCES, capture_output=True, text=True, timeout=_BUILD_SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0 or not check, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr
