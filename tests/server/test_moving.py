"""`agui-gateway export` and `import`: on the new store a gateway gives everybody the same answers."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

from tests.a2a_scene import said
from tests.agent_api_scene import said as said_to_process
from tests.ml_commons_scene import P
from tests.responses_scene import CAREFUL, HELPER
from tests.running_gateway import (
    GatewayClient,
    gateway_command,
    gateway_process,
    local_gateway,
    run_body,
    write_configuration,
)

AGENTS = [HELPER, CAREFUL]
KEY = "a-key-of-mine-0123456789"
AS_ME = {"authorization": f"Bearer {KEY}"}
SERVER = {"api_keys": [{"name": "me", "key": KEY, "approvals": True}]}
SEALED = {"anthropic_api_key": "the key of an account"}
MINE = {"name": "Mine", "model": {"model_provider": "anthropic/v1/messages", "model_id": "m", "credential": SEALED}}


async def command(directory: Path, name: str, *words: str | Path) -> tuple[int, str]:
    """The exit code of `export` or `import`, and all that it says."""
    return await gateway_command(directory, name, "--config", str(directory / "gateway.yaml"), *map(str, words))


def folder(path: Path) -> Path:
    """A folder with a configuration file."""
    path.mkdir()
    write_configuration(path, AGENTS, server=SERVER)
    return path


async def ask(client: GatewayClient, path: str, body: Any = None, method: str = "POST") -> Any:
    """The answer's JSON, or its text."""
    answer = await client.http.request(method, path, json=body, headers=AS_ME)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text


async def fill(client: GatewayClient) -> dict[str, Any]:
    """Ask over all protocols. Gives the requests that tell what there is then: their bodies by their paths."""
    await ask(client, "/agents/mine", MINE, "PUT")
    await ask(client, "/agents/helper/run", run_body("a sum", thread_id="talk", run_id="run-1"))
    edited = [{"id": "edited", "role": "user", "content": "hello"}]
    await ask(client, "/agents/helper/run", run_body(thread_id="talk", run_id="run-2", messages=edited))
    await ask(client, "/agents/careful/run", run_body("a sum", thread_id="asking", run_id="run-3"))

    first = await ask(client, "/v1/responses", {"model": "helper", "input": "a sum"})
    chained = {"model": "helper", "input": "hello", "previous_response_id": first["id"]}
    responses = [first, await ask(client, "/v1/responses", chained), await ask(client, "/v1/responses", chained)]
    of_process = {"input": [said_to_process("hi")], "stream": False, "response_id": "resp", "session_id": "session"}
    await ask(client, "/agents/helper/process", of_process)
    task = (await ask(client, "/a2a", _call("SendMessage", said("a sum"))))["result"]["task"]

    memory = f"{P}/memory/{(await ask(client, f'{P}/memory', {'name': 'A memory'}))['memory_id']}"
    await ask(client, f"{memory}/messages", {"input": "a wolf", "response": "a fang", "additional_info": {"n": 1}})
    container = await ask(client, f"{P}/memory_containers/_create", {"name": "n", "configuration": {}})
    memories = f"{P}/memory_containers/{container['memory_container_id']}/memories"
    words = [{"role": "user", "content": [{"type": "text", "text": "a wolf"}]}]
    await ask(client, memories, {"messages": words, "payload_type": "conversational", "infer": False})

    threads = [each["id"] for each in (await ask(client, "/threads?limit=100", method="GET"))["threads"]]
    shown = ["/threads?limit=100", "/approvals", "/agents", f"{P}/agents/mine", "/process/resp", f"{P}/memory", memory]
    shown += [f"/threads/{each}{end}" for each in threads for end in ("/messages", "/versions")]
    shown += [f"/runs/run-{number}{end}" for number in (1, 2, 3) for end in ("", "/events")]
    shown += [f"/v1/responses/{each['id']}{end}" for each in responses for end in ("", "/input_items")]
    shown += [f"{memory}/messages"]
    return {
        **dict.fromkeys(shown),
        "/a2a": _call("GetTask", {"id": task["id"]}),
        f"{memory}/_search": {"query": {"match": {"input": "wolf"}}},
        f"{memories}/working/_search": {"query": {"match_all": {}}},
    }


def _call(method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def answers(client: GatewayClient, asked: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    found: dict[str, tuple[int, Any]] = {}
    for path, body in asked.items():
        answer = await client.http.request("GET" if body is None else "POST", path, json=body, headers=AS_ME)
        content: Any = answer.text
        if answer.headers["content-type"].startswith("application/json"):
            content = {**answer.json(), "took": 0}
        found[path] = answer.status_code, content
    return found


async def test_a_gateway_on_the_new_store_gives_the_same_answers_over_all_protocols(tmp_path: Path) -> None:
    old, new, file = folder(tmp_path / "old"), folder(tmp_path / "new"), tmp_path / "everything.jsonl"
    server = {**SERVER, "public_url": "https://agents.example"}  # which the answers have in their addresses
    async with local_gateway(old, AGENTS, server=server) as gateway:
        asked = await fill(gateway.client)
        before = await answers(gateway.client, asked)
        code, told = await command(old, "export", file)
        assert (code, told.startswith(f"exported to {file}: 8 threads, ")) == (0, True), told
    assert {path: told for path, told in before.items() if told[0] != 200} == {}
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600

    code, missing = await command(new, "import", file)
    assert (code, missing.count("documents are sealed with keys that this gateway does not have: ")) == (1, 1)
    assert f"or copy the key file of their store to '{new / 'gateway.key'}'" in missing
    shutil.copy(old / "gateway.key", new)
    assert await command(new, "import", file) == (0, told.replace("exported to", "imported from"))
    async with local_gateway(new, AGENTS, server=server) as gateway:
        after = await answers(gateway.client, asked)
        assert {path: after[path] for path in asked if after[path] != before[path]} == {}
        text = await ask(gateway.client, "/agents/helper/run", run_body("more", thread_id="talk", run_id="run-4"))
        assert "RUN_FINISHED" in text


async def test_neither_a_wrong_file_nor_a_store_in_use_changes_anything(tmp_path: Path) -> None:
    old, new, file = folder(tmp_path / "old"), folder(tmp_path / "new"), tmp_path / "everything.jsonl"
    code, said = await command(old, "export", file)
    assert (code, said, file.exists()) == (1, f"there is no store '{old / 'gateway.db'}'; name another\n", False)
    async with gateway_process(old / "gateway.yaml") as gateway:
        await ask(gateway.client, "/agents/helper/run", run_body("hello"))
        assert (await command(old, "export", file))[0] == 0
        code, said = await command(old, "export", file)
        assert (code, said) == (1, f"'{file}' exists already; name another file\n")
        code, said = await command(old, "import", file)
        assert (code, "is in use by another process; stop that gateway first" in said) == (1, True)
    code, said = await command(old, "import", file)
    assert (code, "the store is not empty: it has threads and runs. Name another store" in said) == (1, True)

    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(file.read_bytes()[:-1])
    code, said = await command(new, "import", cut)
    assert (code, "is cut off or was changed" in said) == (1, True)
    assert not (new / "gateway.db").exists(), "the file is read before the store is made"
    assert (await command(new, "import", "--store", "sqlite:///other.db", file))[0] == 0
    assert (new / "other.db").exists()
    code, said = await command(new, "export", "--store", "sqlite://:memory:", tmp_path / "none")
    assert (code, "the store is in memory and ends with its process" in said) == (1, True)
