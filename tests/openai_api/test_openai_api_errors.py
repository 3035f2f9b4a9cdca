"""Errors in OpenAI's form: of requests that reach no route, and what becomes of the gateway's codes and statuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import openai
import pytest

from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

KEY = {"authorization": "Bearer alice-key-of-the-tests"}
LIMITS = {"max_body_bytes": 2000}
SERVER = {"api_keys": [{"name": "alice", "key": "alice-key-of-the-tests", "limits": LIMITS}]}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    async with local_gateway(tmp_path, [agent("helper", scripted([{"text": "hi"}]))], server=SERVER) as local:
        yield local


def error(answer: httpx.Response, status: int) -> dict[str, object]:
    """The error of an answer that has nothing else."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    found: dict[str, object] = answer.json()["error"]
    assert list(found) == ["message", "type", "param", "code"]
    return found


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
@pytest.mark.parametrize("path", ["/models", "/models/helper", "/chat/completions", "/responses", "/x/y", "/"])
async def test_without_a_key_every_path_answers_in_openai_s_form(gateway: LocalGateway, prefix: str, path: str) -> None:
    answer = await gateway.client.http.get(prefix + path)
    found = error(answer, 401)
    assert (found["type"], found["code"], found["param"]) == ("authentication_error", "invalid_api_key", None)
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_the_sdk_takes_a_wrong_key_for_what_it_is(gateway: LocalGateway) -> None:
    async with openai.AsyncOpenAI(base_url=f"{gateway.client.base_url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
    assert refused.value.code == "invalid_api_key"
    assert refused.value.request_id


async def test_a_path_that_is_not_served_is_named(gateway: LocalGateway) -> None:
    found = error(await gateway.client.http.post("/v1/engines/x", json={}, headers=KEY), 404)
    assert (found["type"], found["code"]) == ("invalid_request_error", "unknown_url")
    assert "'/v1/engines/x'" in str(found["message"])
    problem = await gateway.client.http.get("/v2/models", headers=KEY)
    assert problem.headers["content-type"] == "application/problem+json", "other paths keep their form"


async def test_a_method_that_is_not_served_is_answered_with_those_that_are(gateway: LocalGateway) -> None:
    answer = await gateway.client.http.delete("/v1/models", headers=KEY)
    found = error(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"
    assert (found["type"], found["code"]) == ("invalid_request_error", "method_not_allowed")


async def test_a_body_that_is_too_large_is_refused(gateway: LocalGateway) -> None:
    answer = await gateway.client.http.post("/v1/chat/completions", content=b" " * 3000, headers={**KEY, **JSON})
    found = error(answer, 413)
    assert (found["type"], found["code"]) == ("invalid_request_error", "body_too_large")


async def test_a_body_that_is_no_json_by_its_type_is_refused(gateway: LocalGateway) -> None:
    form = {**KEY, "content-type": "multipart/form-data"}
    found = error(await gateway.client.http.post("/v1/chat/completions", content=b"{}", headers=form), 415)
    assert (found["type"], found["code"]) == ("invalid_request_error", "unsupported_media_type")
