"""A store around another one, which notes what is asked of it."""

from __future__ import annotations

from typing import Any

from gateway.store import Store


class NotedStore:
    """A store whose methods are those of `store`. Each use of one adds its name to `noted`."""

    def __init__(self, store: Store, noted: list[str]) -> None:
        self._store = store
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        self._noted.append(name)
        return getattr(self._store, name)
