"""The commands of docs/versions.md, one after the other, as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from gateway.configuration.sections import ServerSection
from tests.documentation import PAGES, SNIPPETS
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

BASE = "http://127.0.0.1:8000"


def commands() -> Iterator[list[str]]:
    for each in SNIPPETS:
        if each.page == "docs/versions.md":
            yield from (shlex.split(line, comments=True) for line in each.text.splitlines())


async def done(gateway: LocalGateway, words: list[str]) -> httpx.Response:
    """What curl would do."""
    (url,) = [word for word in words if word.startswith(BASE)]
    options = {word: following for word, following in pairwise(words) if word.startswith("-")}
    name, _, value = options.get("-H", "x-none: ").partition(": ")
    method, content = options.get("-X", "GET"), options.get("-d")
    return await gateway.client.http.request(method, url.removeprefix(BASE), headers={name: value}, content=content)


async def test_the_pages_commands_do_what_it_says(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [{"id": "u1", "role": "user", "content": "one"}]
    async with local_gateway(tmp_path, [agent("echo", scripted([{"text": "I heard: {{user}}"}]))]) as gateway:
        for number, text in enumerate(("one", "edited"), 1):
            messages[0]["content"] = text
            await gateway.client.run("echo", run_body(messages=messages, thread_id="t1", run_id=f"r{number}"))
        answers = [await done(gateway, words) for words in commands()]
        assert [answer.status_code for answer in answers] == [200, 200, 204, 204, 201]
        listed, first, *_, forked = answers
        assert [each["version"] for each in listed.json()["versions"]] == [1, 2]
        assert [each["content"] for each in first.json()["messages"]] == ["one", "I heard: one"]
        assert [each["version"] for each in (await gateway.client.get("/threads/t1/versions"))["versions"]] == [1]
        page = await gateway.client.get(f"/threads/{forked.json()['threadId']}/messages")
        assert [each["content"] for each in page["messages"]] == ["one"]


def test_the_page_says_how_many_versions_there_may_be() -> None:
    found = re.search(r"up to (\d+) versions \(`server.max_versions`\)", PAGES["docs/versions.md"])
    assert found is not None
    assert int(found[1]) == ServerSection.model_fields["max_versions"].default
