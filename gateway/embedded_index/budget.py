"""Bounds how much work one search may do, and lets other searches work between its steps.

Above: search, evaluation, aggregation. It counts work and not time, so that the same search ends in the same way on
every machine. A step takes about a microsecond on an ordinary one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.errors import ToolError

_INSTRUCTIONS = 1_000
_STEPS_PER_INSTRUCTIONS = 60
SLICE_STEPS = 10_000
"""After so many steps other searches have their turn."""


@dataclass(frozen=True, slots=True)
class SearchSteps:
    """How many steps a search may take; a few passes over all documents are always allowed."""

    steps: int = 1_000_000
    steps_per_document: int = 10


USUAL_STEPS = SearchSteps()


class Budget:
    """The steps that are left to a search over a database of so many documents.

    `rest` is called after each slice of SLICE_STEPS: other searches work meanwhile. While a statement is under way,
    SQLite holds the connection: then `rest` is called only if no other search uses it (`owns_connection`).
    """

    __slots__ = ("_database", "_left", "_owns_connection", "_rest", "_slice")

    def __init__(
        self,
        documents: int,
        most: SearchSteps,
        rest: Callable[[], None] = lambda: None,
        *,
        owns_connection: bool = False,
    ) -> None:
        self._left = most.steps + most.steps_per_document * documents
        self._slice = SLICE_STEPS
        self._rest = rest
        self._owns_connection = owns_connection
        self._database: sqlite3.Connection | None = None

    def spend(self, steps: int) -> None:
        """Count work of about `steps` steps, before or after it is done.

        Raises:
            ToolError: so many steps are not left.
        """
        self._left -= steps
        self._slice -= steps
        if self._left < 0:
            raise ToolError(
                "the search would take too long; make it narrower: fewer clauses, fields, fuzzy words and "
                "aggregations, 'prefix_length' with fuzzy words, more letters before a wildcard, ranges that few "
                "documents are in"
            )
        if self._slice < 0:
            self._slice += SLICE_STEPS
            self._rest()
            if self._database is not None:  # another search may have counted meanwhile
                self._database.set_progress_handler(self._count, _INSTRUCTIONS)

    @contextlib.contextmanager
    def of(self, database: sqlite3.Connection) -> Iterator[None]:
        """Also count the database's own work within this context.

        Raises:
            ToolError: as `spend`; a running statement is interrupted when no steps are left.
        """
        self._database = database
        database.set_progress_handler(self._count, _INSTRUCTIONS)
        try:
            yield
        except sqlite3.OperationalError:
            self.spend(0)  # it may have been interrupted for another reason
            raise
        finally:
            self._database = None
            database.set_progress_handler(None, _INSTRUCTIONS)

    def _count(self) -> bool:
        """Count instructions of SQLite. Gives whether the statement must stop."""
        self._left -= _STEPS_PER_INSTRUCTIONS
        self._slice -= _STEPS_PER_INSTRUCTIONS
        if self._slice < 0 and self._owns_connection:
            self._slice += SLICE_STEPS
            self._rest()
        return self._left < 0
