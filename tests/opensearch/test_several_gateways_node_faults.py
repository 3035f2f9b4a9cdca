"""Three gateways under load whose node ends, is silent, slow or overloaded, or whose answers are lost."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.gateways_under_load import LEASE_SECONDS, loaded_gateways, pass_seconds
from tests.local_proxies import needs_nginx
from tests.openai_chat_server import Received
from tests.opensearch.front import (
    CUT_AFTER,
    CUT_BEFORE,
    FULL,
    PASS,
    TOO_MANY,
    UNAVAILABLE,
    Fate,
    Front,
    Pass,
    RefuseItems,
    front_before,
)
from tests.opensearch.node import OpenSearchNode, opensearch_node

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600), needs_nginx]

ROUNDS: Final = 2
SHORT_SECONDS: Final = 2.0
LONG_SECONDS: Final = 2 * LEASE_SECONDS


@dataclass(frozen=True, slots=True)
class Scene:
    """The gateways reach the node through the front."""

    node: OpenSearchNode
    front: Front
    chance: random.Random

    async def broken(self, fate: Callable[[Received], Fate], share: float = 1.0) -> None:
        """For a while that share of the requests meets this fate."""
        self.front.forget(lambda _, request: fate(request) if self.chance.random() < share else PASS)
        await pass_seconds(LONG_SECONDS)
        self.front.forget()

    def some_items(self, request: Received) -> Fate:
        """A third of a bulk's items are refused."""
        if not request.target.partition("?")[0].endswith("/_bulk"):
            return PASS
        return RefuseItems({number for number in range(1000) if self.chance.random() < 1 / 3}, TOO_MANY)


async def killed(scene: Scene) -> None:
    await scene.node.kill()
    await pass_seconds(SHORT_SECONDS)
    await scene.node.start()


async def stopped(scene: Scene) -> None:
    await scene.node.stop()
    await scene.node.start()


async def paused(scene: Scene, seconds: float) -> None:
    scene.node.pause()
    await pass_seconds(seconds)
    scene.node.resume()


FAULTS: Final[Mapping[str, Callable[[Scene], Awaitable[None]]]] = {
    "killed": killed,
    "stopped": stopped,
    "paused for less than a lease": partial(paused, seconds=SHORT_SECONDS),
    "paused for more than a lease": partial(paused, seconds=LONG_SECONDS),
    "slow": lambda scene: scene.broken(lambda _: Pass(after_seconds=0.5)),
    "overloaded": lambda scene: scene.broken(lambda _: TOO_MANY, 1 / 3),
    "overloaded for items": lambda scene: scene.broken(scene.some_items),
    "full": lambda scene: scene.broken(lambda request: PASS if request.method in ("GET", "HEAD") else FULL),
    "without its shards": lambda scene: scene.broken(lambda _: UNAVAILABLE, 1 / 3),
    "answers lost": lambda scene: scene.broken(lambda _: CUT_AFTER, 1 / 5),
    "requests lost": lambda scene: scene.broken(lambda _: CUT_BEFORE, 1 / 5),
}
"""What the node is, or what becomes of its requests and answers."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_was_seen_is_there_and_nothing_is_done_twice_whatever_happens_to_the_node(
    tmp_path: Path, fault: str
) -> None:
    chance = random.Random(fault)
    async with opensearch_node(tmp_path / "node") as node, front_before(node.url) as front:
        scene, url = Scene(node, front, chance), front.url.replace("http://", "opensearch://")
        async with loaded_gateways(tmp_path, f"{url}?prefix=faults") as loaded:
            for _ in range(ROUNDS):
                await loaded.suffer(chance.randrange(50, 800), partial(FAULTS[fault], scene))
