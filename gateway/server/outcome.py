"""The outcome of work that a command asked the process for: a file beside the store, for which the command waits.

Above: asked_work, which writes it; the command line, which reads it. The file is replaced as a whole, so that nobody
reads half of it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway.sqlite.private_files import OWNER_ONLY
from gateway.store import Vacuumed

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """`began`: when the work began, in Unix seconds. `accepted`: it was done; else nothing has changed. `lines` say
    what changed, or why nothing did, for the operator.
    """

    began: float
    accepted: bool
    lines: Sequence[str]


def accepted_lines(changes: Mapping[str, Sequence[str]], restart: Sequence[str]) -> list[str]:
    """Lines for the operator: the changes by their kind, and the changed fields that need a restart."""
    lines = [f"{kind}: {', '.join(ids)}" for kind, ids in changes.items() if ids] or ["no agent has changed"]
    return [*lines, f"a restart is needed for: {', '.join(restart)}"] if restart else lines


def vacuumed_lines(done: Vacuumed) -> list[str]:
    """Lines that tell the operator the result of rewriting the store."""
    return [
        f"nothing was written for {done.seconds:.1f} seconds; no run was ended",
        f"{_megabytes(done.before)} before, {_megabytes(done.after)} after",
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def outcome_file(store: Path, command: str) -> Path:
    """The file beside that of the store: `gateway.reload` beside `gateway.db`."""
    file = store.with_suffix(f".{command}")
    return file if file != store else store.with_name(f"{store.name}.{command}")


def write_outcome(file: Path, outcome: Outcome) -> None:
    """Replace the file. A failure is only logged: the reload itself is over."""
    fresh = file.with_name(f"{file.name}.new")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY), "w") as opened:
            json.dump(asdict(outcome), opened)
        fresh.replace(file)
    except OSError as error:
        logger.warning("the command that asked for this will not hear what came of it", extra={"cause": error.strerror})
        with contextlib.suppress(OSError):
            fresh.unlink()


def forget_outcome(file: Path) -> None:
    """Remove the file when the process ends, so that no later command reads it."""
    with contextlib.suppress(OSError):
        file.unlink()


def wait_for_outcome(file: Path, *, asked: float, seconds: float, is_serving: Callable[[], bool]) -> Outcome | None:
    """The outcome of work that began when it was asked for, or later; None where there is none within the time, or
    where the process does not serve any more.
    """
    latest = time.monotonic() + seconds
    while True:
        serves, outcome = is_serving(), _read_outcome(file)
        if outcome is not None and outcome.began >= asked:
            return outcome
        if not serves or time.monotonic() >= latest:
            return None
        time.sleep(_LOOK_SECONDS)


def _read_outcome(file: Path) -> Outcome | None:
    try:
        return Outcome(**json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):  # there is none yet, or it is another version's
        return None
