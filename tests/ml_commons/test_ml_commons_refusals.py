"""What ml-commons' paths refuse before a route is reached, and how a caller shows who it is there."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import TransportError
from starlette.routing import Route

from gateway.ml_commons.routes import MlRoute
from tests.ml_commons_scene import P, ml_gateway

ALICE, BOB = "alice-key-of-the-tests", "bobs-key-of-the-tests"
KEYS = {"api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}]}
ORIGIN = "https://app.example"
MISSING = P + "/no/such/route"


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def cause(answer: Any) -> tuple[int, str, str]:
    """The status, the type and the reason of an error in OpenSearch's form."""
    [root] = answer["error"]["root_cause"]
    assert {name: answer["error"][name] for name in root} == root
    return answer["status"], root["type"], root["reason"]


async def curl(*arguments: str) -> tuple[int, str]:
    """The status and the body that curl gets."""
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-q", "--noproxy", "*", "-w", "\n%{http_code}", *arguments, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(20):
        said, _ = await process.communicate()
    body, _, status = said.decode().rpartition("\n")
    return int(status), body


# --- errors before a route


async def test_an_unknown_route_has_no_handler(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await ml.call("POST", "/no/such/route", {})
    said = "no handler found for uri [/_plugins/_ml/no/such/route] and method [POST]"
    assert (status, cause(answer)) == (404, (404, "status_exception", said))


@pytest.mark.parametrize("path", [P, P + "/"])
async def test_the_prefix_itself_has_no_handler(tmp_path: Path, path: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        answer = await ml.http.get(path)
    assert cause(answer.json())[2] == f"no handler found for uri [{path}] and method [GET]"


async def test_a_body_that_is_no_json_type_is_refused(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        answer = await ml.http.post(MISSING, content="a=b", headers={"content-type": "text/plain"})
    assert (answer.status_code, cause(answer.json())[0]) == (415, 415)


async def test_a_body_that_is_too_large_is_refused_with_any_method(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server={"max_body_bytes": 1000}) as ml:
        for method in ("POST", "PUT", "DELETE", "GET"):
            answer = await ml.http.request(method, MISSING, json={"text": "x" * 2000})
            assert (answer.status_code, cause(answer.json())[0]) == (413, 413), method


async def test_without_a_key_the_answer_names_both_ways_to_send_one(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        answer = await ml.http.get(MISSING)
    assert (answer.status_code, cause(answer.json())[:2]) == (401, (401, "security_exception"))
    assert answer.headers["www-authenticate"].startswith('Bearer realm="agui-gateway", Basic realm="agui-gateway"')


async def test_a_foreign_page_is_refused_in_this_form(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        answer = await ml.http.get(MISSING, headers={"origin": "https://evil.example"})
    assert (answer.status_code, cause(answer.json())[:2]) == (403, (403, "security_exception"))


# --- Basic authentication


@pytest.mark.parametrize(("name", "key"), [("alice", ALICE), ("bob", BOB)])
async def test_the_user_is_the_name_of_the_key(tmp_path: Path, name: str, key: str) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        answer = await ml.http.get(MISSING, headers=basic(name, key))
        assert answer.status_code == 404  # the router's: the caller was let in
        bearer = await ml.http.get(MISSING, headers={"authorization": f"Bearer {key}"})
    assert bearer.status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        basic("alice", BOB),
        basic("nobody", ALICE),
        basic("", ALICE),
        basic("alice", ""),
        basic("ALICE", ALICE),
        basic("alice:", ALICE),
        {"authorization": f"Basic {ALICE}"},
        {"authorization": "Basic !"},
        {"authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()},
    ],
    ids=str,
)
async def test_a_wrong_name_and_a_wrong_key_look_the_same(tmp_path: Path, headers: dict[str, str]) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        answer = await ml.http.get(MISSING, headers=headers)
    assert answer.status_code == 401
    assert cause(answer.json())[2] == "this name with this key is not known; send one of server.api_keys"


async def test_other_surfaces_take_no_password(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        assert (await ml.http.get("/agents", headers=basic("alice", ALICE))).status_code == 401


async def test_a_password_that_a_browser_sends_for_a_foreign_page_is_refused(tmp_path: Path) -> None:
    shop = "https://shop.example"
    publishable = {"name": "shop", "key": "pk_shop-0123456789", "origins": [shop], "agents": ["configured"]}
    server = {**KEYS, "cors_origins": [ORIGIN], "publishable_keys": [publishable]}
    async with ml_gateway(tmp_path, server=server) as ml:
        for origin, status in (("https://evil.example", 403), (shop, 403), (ORIGIN, 404)):
            answer = await ml.http.get(MISSING, headers={**basic("alice", ALICE), "origin": origin})
            assert answer.status_code == status, origin
        image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        answer = await ml.http.get(MISSING, headers={**basic("alice", ALICE), **image})
        assert answer.status_code == 403
        visitors = await ml.http.get(MISSING, headers=basic("shop", "pk_shop-0123456789"))
        assert visitors.status_code == 401


async def test_where_no_key_is_needed_a_password_is_ignored(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert (await ml.http.get(MISSING, headers=basic("admin", "admin"))).status_code == 404


async def test_no_key_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="gateway")
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        for key in (ALICE, "a-wrong-key"):
            await ml.http.get(MISSING, headers=basic("alice", key))
            for secret in (key, basic("alice", key)["authorization"].removeprefix("Basic ")):
                assert not any(secret in str(vars(record)) for record in caplog.records)
    assert caplog.records


async def test_opensearchs_client_logs_in(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        for key, expected in ((ALICE, 404), ("a-wrong-key", 401)):
            client = AsyncOpenSearch([str(ml.http.base_url)], http_auth=("alice", key), max_retries=0)
            try:
                with pytest.raises(TransportError) as caught:
                    await client.transport.perform_request("GET", MISSING, body={"query": {"match_all": {}}})
            finally:
                await client.close()
            assert caught.value.status_code == expected


async def test_curl_logs_in_and_asks_for_a_pretty_answer(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        url = str(ml.http.base_url).rstrip("/") + MISSING
        assert (await curl("-u", "alice:wrong", url))[0] == 401
        status, body = await curl("--anyauth", "-u", f"alice:{ALICE}", url + "?pretty")
    assert status == 404
    assert body.startswith('{\n  "error": {\n')
    assert body.endswith("}\n")
    assert cause(json.loads(body))[0] == 404


async def test_every_path_of_this_surface_takes_a_password_and_asks_for_one(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        routes = [route for route in ml.gateway.application.starlette.routes if isinstance(route, Route)]
        of_ml = [route for route in routes if route.path.startswith(("/_plugins/", "/_cluster/"))]
        assert len(of_ml) > 20
        assert [route.path for route in of_ml if not isinstance(route, MlRoute)] == []
        for route in of_ml:
            path = re.sub(r"\{\w+\}", "x", route.path)
            answer = await ml.http.get(path)
            assert (answer.status_code, answer.json()["status"]) == (401, 401), path
            assert "Basic" in answer.headers["www-authenticate"], path
            assert (await ml.http.get(path, headers=basic("alice", ALICE))).status_code != 401, path


# --- browsers


async def test_pages_of_allowed_origins_may_put_and_delete(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server={"cors_origins": [ORIGIN]}) as ml:
        for method in ("PUT", "DELETE"):
            asked = {"origin": ORIGIN, "access-control-request-method": method}
            answer = await ml.http.options(MISSING, headers=asked)
            assert answer.status_code == 204
            assert method in answer.headers["access-control-allow-methods"].split(", ")


async def test_visitors_get_none_of_it(tmp_path: Path) -> None:
    publishable = {"name": "shop", "key": "pk_shop-0123456789", "origins": [ORIGIN], "agents": ["configured"]}
    async with ml_gateway(tmp_path, server={"publishable_keys": [publishable]}) as ml:
        page = {"origin": ORIGIN, "authorization": "Bearer pk_shop-0123456789"}
        made = await ml.http.post("/visitors", headers=page, json={})
        assert made.status_code == 201, made.text
        visitor = {"origin": ORIGIN, "authorization": f"Bearer {made.json()['visitorToken']}"}
        assert (await ml.http.get(MISSING, headers=visitor)).status_code == 404
