"""Changes and deletions count for a key's minute, as runs do, and not among the runs that are under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.access.limits import Meter, Quota
from gateway.errors import TooManyRequestsError
from tests.movable_clock import MovableClock
from tests.running_gateway import agent, local_gateway, run_body, scripted

KEY: Any = {"name": "alice", "key": "alice-key-of-the-tests"}
HEADERS = {"authorization": f"Bearer {KEY['key']}"}
CHANGES: dict[str, tuple[str, str, Any]] = {
    "a new title": ("PATCH", "/threads/thread-1", {"title": "mine"}),
    "a thread": ("DELETE", "/threads/thread-1", None),
    "a version": ("DELETE", "/threads/thread-1/versions/7", None),
    "the current version": ("POST", "/threads/thread-1/versions/1", None),
    "a memory": ("DELETE", "/_plugins/_ml/memory/thread-1", None),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_counts_for_the_minute_of_its_key(tmp_path: Path, name: str) -> None:
    method, path, body = CHANGES[name]
    key = {**KEY, "limits": {"runs_per_minute": 2}}
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))], server={"api_keys": [key]}) as gateway:
        http = gateway.client.http
        assert (await http.post("/agents/a/run", json=run_body(), headers=HEADERS)).status_code == 200
        first = await http.request(method, path, json=body, headers=HEADERS)
        assert first.status_code != 429
        assert (await http.request(method, path, json=body, headers=HEADERS)).status_code == 429
        assert (await http.get("/threads", headers=HEADERS)).status_code == 200, "reading goes on"


async def test_what_is_over_at_once_is_not_refused_for_what_is_under_way() -> None:
    meter, quota = Meter(MovableClock(), "runs"), Quota("a", "", 3, 1)
    release = meter.begin([quota])
    meter.count([quota])
    meter.count([quota])
    with pytest.raises(TooManyRequestsError) as refused:
        meter.count([quota])
    assert refused.value.code == "limit_runs_per_minute"
    release(None)
    assert len(meter) == 1
