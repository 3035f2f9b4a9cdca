"""The pieces of a move in batches: they are read and taken by blocking code in threads, a batch in each step.

Below: the contract's data. Above: export_pieces, import_pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from dataclasses import fields
from typing import Final

from gateway.store.transfer import Moved

_MOST_PIECES: Final = 500
_MOST_BYTES: Final = 2_000_000


class Batch:
    """Pieces until they are many or large."""

    def __init__(self) -> None:
        self.pieces: list[Moved] = []
        self._size = 0

    def add(self, piece: Moved) -> bool:
        """Whether the batch is full now."""
        self.pieces.append(piece)
        values = [getattr(piece, field.name) for field in fields(piece)]
        self._size += sum(len(value) for value in values if isinstance(value, bytes))
        return self._size >= _MOST_BYTES or len(self.pieces) >= _MOST_PIECES


async def given(pieces: AsyncIterable[Moved], take: Callable[[Moved], None]) -> None:
    """Give all pieces to `take`, in threads."""
    batch = Batch()
    async for piece in pieces:
        if batch.add(piece):
            await asyncio.to_thread(_take_all, take, batch)
            batch = Batch()
    await asyncio.to_thread(_take_all, take, batch)


async def read(moved: Iterable[Moved]) -> AsyncGenerator[Moved]:
    """All pieces, which are read in threads."""
    pieces = iter(moved)
    while batch := await asyncio.to_thread(_next, pieces):
        for piece in batch:
            yield piece


def _take_all(take: Callable[[Moved], None], batch: Batch) -> None:
    for piece in batch.pieces:
        take(piece)


def _next(pieces: Iterator[Moved]) -> list[Moved]:
    batch = Batch()
    for piece in pieces:
        if batch.add(piece):
            break
    return batch.pieces
