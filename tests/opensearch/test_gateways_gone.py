"""Three gateways behind nginx that are killed, paused and restarted while clients of every protocol read."""

from __future__ import annotations

import random
import signal
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.gateways_under_load import loaded_gateways
from tests.local_proxies import needs_nginx
from tests.opensearch.index_sets import store_url
from tests.returning_clients import RefusedError

pytestmark = [pytest.mark.timeout(1800), needs_nginx]

FAULTS: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)


@pytest.fixture(scope="module", autouse=True)
def _node(opensearch_url: str) -> None:
    """The node that all tests share is started before a test looks which processes it leaves."""


@pytest.mark.parametrize(
    ("faults", "seed"),
    [pytest.param(3, 1, marks=pytest.mark.thorough), pytest.param(30, 2, marks=pytest.mark.faults)],
)
@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes on"])
async def test_what_was_seen_is_there_and_nothing_is_done_twice_whatever_happens_to_three_gateways(
    tmp_path: Path, faults: int, seed: int, goes_on: bool, request: pytest.FixtureRequest
) -> None:
    url, chance = store_url("opensearch", tmp_path, request), random.Random(seed)
    async with loaded_gateways(tmp_path, url, goes_on=goes_on) as loaded:
        for number in range(faults):
            place, frames = chance.choice(loaded.places), chance.randrange(50, 800)
            await loaded.suffer(frames, partial(place.suffer, FAULTS[number % len(FAULTS)]))


@pytest.mark.thorough
async def test_a_rolling_restart_breaks_no_stream(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with loaded_gateways(tmp_path, store_url("opensearch", tmp_path, request)) as loaded:
        for place in loaded.places:
            await loaded.suffer(200, partial(place.suffer, signal.SIGTERM))
        for trouble in loaded.troubles:
            assert isinstance(trouble, RefusedError), trouble
            assert str(trouble).startswith(("502: ", "503: ")), "it can be sent again at once"
