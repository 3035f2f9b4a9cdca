"""A newcomer's file for the time of a test, as if it lay in its room."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.documentation import ROOT


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


def what_mypy_says(path: Path) -> str:
    """Of a newcomer's file, with the package's own settings; empty where all is well."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(path)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr
