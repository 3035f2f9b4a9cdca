"""The programs of docs/embedding.md do what the page says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.documentation import snippet
from tests.embedded_gateway import HELPER, client_of, embedded
from tests.running_gateway import write_configuration


def program(text: str) -> dict[str, Any]:
    """What a program's names are, once it has been run."""
    names: dict[str, Any] = {"__name__": "my_program"}
    exec(text, names)
    return names


async def test_a_program_says_which_protocols_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_configuration(tmp_path, [HELPER])
    monkeypatch.chdir(tmp_path)
    gateway = program(snippet("docs/embedding.md", "python", "protocol_adapters=["))["gateway"]
    async with gateway.lifespan(), client_of(gateway.asgi) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.get("/.well-known/agent-card.json")).json()["name"] == "Friday"
        assert (await client.get("/_plugins/_ml/tools")).status_code == 404


async def test_an_adapter_is_a_protocol_of_ones_own(tmp_path: Path) -> None:
    adapter = program(snippet("docs/embedding.md", "python", "class SummaryAdapter"))["SummaryAdapter"]()
    async with embedded(tmp_path, adapter) as client:
        answer = (await client.post("/summary", json="Hello?")).json()
        assert answer["status"] == "completed"
        assert answer["output"][0]["content"][0]["text"] == "hello there"
