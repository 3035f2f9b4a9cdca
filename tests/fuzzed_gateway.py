"""A gateway to which several clients send random requests at once.

Below: fuzzed_requests. Above: the tests that send those of one protocol, and say what a right answer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

from tests.fuzzed_requests import FuzzedRequest
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

LEAKS: Final = ("Traceback", " object at 0x", "internal_error", "pydantic", "sqlite3", "KeyError", "TypeError(")
"""What no answer may show."""

_SENDERS: Final = 4
_MOST_COMPLAINTS: Final = 20
_WEATHER = {"when": {"last_user_contains": "weather", "turn": 0}, "response": [{"tool": "weather", "arguments": {}}]}
_SEARCH = {"when": {"turn": 0}, "response": [{"tool": "ListIndexTool", "arguments": {}}]}
_DONE = {"when": {}, "response": [{"reasoning": "hm"}, {"text": "done"}]}
_TOOL = {"type": "ListIndexTool"}
AGENTS: Final = (
    agent("answers", scripted(rules=[_WEATHER, _DONE])),
    agent("tools", scripted(rules=[_WEATHER, _SEARCH, _DONE]), tools=[_TOOL]),
    agent("asks", scripted(rules=[_SEARCH, _DONE]), tools=[{**_TOOL, "approval": "always"}]),
)


class Fuzz(Protocol):
    """Makes random requests of one protocol."""

    def requests(self, each: int) -> Iterator[FuzzedRequest]:
        """About so many for each route."""


FuzzT = TypeVar("FuzzT", bound=Fuzz)


async def complaints(
    directory: Path,
    fuzz_of: Callable[[int, tuple[str, ...]], FuzzT],
    send: Callable[[LocalGateway, FuzzT, FuzzedRequest, list[str]], Awaitable[None]],
    *,
    seed: int,
    requests: int,
) -> list[str]:
    """What was wrong with answers to about so many requests for each route. `fuzz_of` is given a seed and the agents'
    ids; `send` sends a request, and notes what is wrong with its answer.
    """
    wrong: list[str] = []
    ids = tuple(each["id"] for each in AGENTS)

    async def sender(gateway: LocalGateway, number: int) -> None:
        fuzz = fuzz_of(seed * 100 + number, ids)
        for asked in fuzz.requests(-(-requests // _SENDERS)):
            await send(gateway, fuzz, asked, wrong)
            if len(wrong) > _MOST_COMPLAINTS:
                return

    async with local_gateway(directory, AGENTS) as gateway, asyncio.TaskGroup() as group:
        for number in range(_SENDERS):
            group.create_task(sender(gateway, number))
    return wrong


def raw_headers(asked: FuzzedRequest) -> list[tuple[bytes, bytes]]:
    """The request's headers as they are sent, whatever is in them."""
    return [(name.encode(), value.strip().encode("latin-1")) for name, value in asked.headers.items()]


def described(asked: FuzzedRequest) -> str:
    """The request, shortened, for a complaint."""
    return f"{asked.method} {asked.target[:200]} {asked.headers} {(asked.content or b'')[:900]!r}"
