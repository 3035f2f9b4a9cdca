"""A newcomer's file for the time of a test, as if it lay in its room."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path


@contextlib.contextmanager
def file_in_room(code: str, directory: Path) -> Iterator[Path]:
    """`code` begins with a comment that says which file it is: `# gateway/<room>/<name>.py`."""
    _, room_name, file_name = code.splitlines()[0].removeprefix("# ").split("/")
    room = import_module(f"gateway.{room_name}")
    name = file_name.removesuffix(".py")
    (directory / file_name).write_text(code, "utf-8")
    there: list[str] = room.__path__  # type: ignore[assignment]
    there.append(str(directory))
    try:
        yield directory / file_name
    finally:
        there.remove(str(directory))
        sys.modules.pop(f"{room.__name__}.{name}", None)
        vars(room).pop(name, None)
