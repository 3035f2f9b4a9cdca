"""Settings that are read from a file in the current directory, with few parts known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NoReturn

import pytest

from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.known_parts import KnownParts
from gateway.loop import AgentType
from gateway.model import ModelProvider
from gateway.search_engine import SearchEngineType
from gateway.settings import Flags, Settings, load_settings
from gateway.store import StoreType
from gateway.tool import ToolType


def never_opened(*_: object) -> NoReturn:
    raise AssertionError("loading opens nothing")


PARTS = KnownParts(
    models={
        "demo": ModelProvider("demo", never_opened, needs_model_id=False),
        "bedrock/converse": ModelProvider(
            "bedrock/converse", never_opened, frozenset({"access_key", "secret_key", "session_token"})
        ),
    },
    tools={
        name: ToolType(name, never_opened)
        for name in ("PythonTool", "SearchIndexTool", "ListIndexTool", "IndexMappingTool")
    },
    agent_types={"conversational": AgentType("conversational", never_opened)},
    stores={"sqlite": StoreType("sqlite", never_opened)},
    search_engines={"embedded": SearchEngineType("embedded", never_opened)},
)

NO_FLAGS = Flags()
AGENT = "agents:\n  - id: a\n    model: {model_provider: demo}\n"


def load(text: str, *, flags: Flags = NO_FLAGS, **environ: str) -> Settings:
    Path("f.yaml").write_text(text)
    return load_settings(dataclasses.replace(flags, config=Path("f.yaml")), environ=environ, parts=PARTS)


def problems(text: str, *, flags: Flags = NO_FLAGS, **environ: str) -> list[str]:
    with pytest.raises(InvalidConfigurationError) as caught:
        load(text, flags=flags, **environ)
    return caught.value.message.split("\n")
