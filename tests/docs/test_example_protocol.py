"""The protocol of docs/architecture.md: it asks nobody what its caller may do, and is refused all the same."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.documentation import snippet
from tests.newcomers import file_in_room, what_mypy_says
from tests.running_gateway import LocalGateway
from tests.website import ALICE_KEY, SAYS, visitor, website

CODE = snippet("docs/architecture.md", "python", "PROTOCOL = ")
ALICE = {"authorization": f"Bearer {ALICE_KEY}"}


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Path]:
    with file_in_room(CODE, tmp_path) as path:
        yield path


@pytest.fixture
async def shop(example: Path, tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    limits = {"visitor_runs_per_minute": 2, "max_input_bytes": 100}
    alices = {"name": "alice", "key": ALICE_KEY, "limits": {"runs_per_minute": 1, "max_input_bytes": 100}}
    async with website(tmp_path, limits, api_keys=[alices]) as local:
        yield local


async def say(gateway: LocalGateway, headers: dict[str, str], text: str, agent_id: str = "helper") -> httpx.Response:
    return await gateway.client.http.post(f"/say/{agent_id}", json=text, headers=headers)


def code(answer: httpx.Response) -> str:
    """The error's code: the protocol tells errors as `code: detail`."""
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text.partition(": ")[0]


async def test_it_answers_with_the_words_alone(shop: LocalGateway) -> None:
    answer = await say(shop, ALICE, "hello")

    assert (answer.status_code, answer.text) == (200, SAYS)


async def streamed(gateway: LocalGateway, agent_id: str) -> tuple[str, list[str]]:
    """The run's id and its frames."""
    answer = await gateway.client.http.post(f"/say/{agent_id}?stream", json="hello", headers=ALICE)
    return answer.headers["x-run-id"], frames_in(answer.text)


def frames_in(text: str) -> list[str]:
    return [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]


async def test_it_streams_the_same_words_and_goes_on_behind_any_frame(shop: LocalGateway) -> None:
    run_id, frames = await streamed(shop, "helper")
    said = [json.loads(frame.partition("data: ")[2]) for frame in frames]

    assert "".join(said) == SAYS
    assert [frame.split("\n")[0] for frame in frames] == [f"id: {place}" for place in range(1, len(frames) + 1)]
    for after in range(len(frames) + 2):
        answer = await shop.client.http.get(f"/said/{run_id}/after/{after}", headers=ALICE)
        assert frames_in(answer.text) == frames[after:]
    nobodys = await shop.client.http.get("/said/none/after/0", headers=ALICE)
    assert (nobodys.status_code, code(nobodys)) == (404, "run_not_found")


async def test_an_agent_that_the_key_does_not_have_is_unknown(shop: LocalGateway) -> None:
    answer = await say(shop, (await visitor(shop.client)).headers, "hello", "internal")

    assert (answer.status_code, code(answer)) == (404, "agent_not_found")


async def test_runs_count_against_the_caller_s_limits(shop: LocalGateway) -> None:
    headers = (await visitor(shop.client)).headers
    said = [await say(shop, headers, "hello") for _ in range(3)]
    alices = [await say(shop, ALICE, "hello") for _ in range(2)]

    assert [answer.status_code for answer in said] == [200, 200, 429]
    assert code(said[-1]) == "limit_visitor_runs_per_minute"
    assert [answer.status_code for answer in alices] == [200, 429]


async def test_an_input_is_held_to_the_caller_s_limits(shop: LocalGateway) -> None:
    for headers in ((await visitor(shop.client)).headers, ALICE):
        answer = await say(shop, headers, "x" * 101)
        assert (answer.status_code, code(answer)) == (413, "input_too_large"), headers


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "expected"),
    [
        ("POST", "/say/helper", JSON, b'"hello"', 401, "unauthenticated"),
        ("GET", "/say/helper", ALICE, b"", 405, "method_not_allowed"),
        ("GET", "/say/helper/more", ALICE, b"", 404, "not_found"),
        ("GET", "/say/a%2Fb/more", {}, b"", 401, "unauthenticated"),
        ("POST", "/say/helper", ALICE | JSON, b" " * 10_000_001, 413, "body_too_large"),
        ("POST", "/say/helper", ALICE, b"hello", 415, "unsupported_media_type"),
        ("POST", "/say/helper", ALICE | JSON, b"hello", 400, "invalid_json"),
    ],
)
async def test_what_is_refused_before_a_route_is_reached_has_the_protocol_s_form_too(
    shop: LocalGateway, method: str, path: str, headers: dict[str, str], body: bytes, status: int, expected: str
) -> None:
    answer = await shop.client.http.request(method, path, headers=headers, content=body)

    assert (answer.status_code, code(answer)) == (status, expected)
    assert answer.headers["cache-control"] == "no-store", "what a form leaves out"
    assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_the_errors_of_other_protocols_keep_their_form(shop: LocalGateway) -> None:
    for path in ("/agents/helper/run", "/runs/none", "/nothing", "/healthz/more", "/say"):
        answer = await shop.client.http.get(path, headers=ALICE)
        assert answer.headers["content-type"] == "application/problem+json", path


@pytest.mark.timeout(300)  # without a cache the whole package is read
def test_it_is_typed(tmp_path: Path) -> None:
    path = tmp_path / "say.py"
    path.write_text(CODE, "utf-8")
    assert what_mypy_says(path) == ""
