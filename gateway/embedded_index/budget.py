"""Bounds how much work one search may do: the engine has one thread, and other searches wait for it.

Above: search, evaluation, aggregation. It counts work and not time, so that the same search ends in the same way on
every machine. A step takes about a microsecond on an ordinary one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.errors import ToolError

_INSTRUCTIONS = 1_000
_STEPS_PER_INSTRUCTIONS = 60


@dataclass(frozen=True, slots=True)
class SearchSteps:
    """How many steps a search may take; a few passes over all documents are always allowed."""

    steps: int = 1_000_000
    steps_per_document: int = 10


USUAL_STEPS = SearchSteps()


class Budget:
    """The steps that are left to a search over a database of so many documents."""

    __slots__ = ("_left",)

    def __init__(self, documents: int, most: SearchSteps) -> None:
        self._left = most.steps + most.steps_per_document * documents

    def spend(self, steps: int) -> None:
        """Count work of about so many steps, before or after it is done.

        Raises:
            ToolError: fewer steps are left.
        """
        self._left -= steps
        if self._left < 0:
            raise ToolError(
                "the search would take too long; make it narrower: fewer clauses, fields, fuzzy words and "
                "aggregations, 'prefix_length' with fuzzy words, more letters before a wildcard, ranges that few "
                "documents are in"
            )

    @contextlib.contextmanager
    def of(self, database: sqlite3.Connection) -> Iterator[None]:
        """Also count the database's own work within this context.

        Raises:
            ToolError: as `spend`; a running statement is interrupted when no steps are left.
        """
        database.set_progress_handler(self._count, _INSTRUCTIONS)
        try:
            yield
        except sqlite3.OperationalError:
            self.spend(0)  # it may have been interrupted for another reason
            raise
        finally:
            database.set_progress_handler(None, _INSTRUCTIONS)

    def _count(self) -> bool:
        """True stops the statement."""
        self._left -= _STEPS_PER_INSTRUCTIONS
        return self._left < 0
