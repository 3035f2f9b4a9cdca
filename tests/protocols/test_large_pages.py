"""Pages of what is large: they end early, and the cursor goes on."""

from __future__ import annotations

from pathlib import Path

from gateway.endpoints.requests import PAGE_BYTES
from tests.running_gateway import agent, local_gateway, run_body, scripted


async def test_a_page_of_large_messages_ends_early_and_the_next_one_goes_on(tmp_path: Path) -> None:
    text = "x" * (PAGE_BYTES * 3 // 5)
    asked = [{"id": f"u{number}", "role": "user", "content": text} for number in range(4)]
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        await gateway.client.run("a", run_body(messages=asked))
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await gateway.client.get(f"/threads/thread-1/messages?limit=500{cursor and f'&cursor={cursor}'}")
            pages.append([message["id"] for message in page["messages"]])
            cursor = page["nextCursor"]
    assert pages[0] == ["u0", "u1"]
    assert pages[1] == ["u2", "u3"]
    assert len(pages[2]) == 1
