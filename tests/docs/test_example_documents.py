"""The kind of documents that the architecture page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.documentation import snippet
from tests.stored_samples import OWNER, memory_store, within


async def test_the_kind_of_the_page_is_kept_and_found(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(snippet("docs/architecture.md", "python", "DocumentKind"), names)
    store = memory_store(tmp_path)
    await within(store.open())
    answer = await within(names["keep_and_find"](store, OWNER, {"title": "The Sea Wolf", "token": "secret"}))
    (hit,) = answer["hits"]["hits"]
    assert (hit["_id"], hit["_source"]) == ("n1", {"title": "The Sea Wolf", "tags": {"state": "read"}})
    await within(store.close())
