"""The store URL: which file, and how large it may grow."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from gateway.errors import ConfigurationError

SCHEME = "sqlite://"
MEMORY = ":memory:"
MINIMUM_SIZE_BYTES = 128 * 1024

_PARAMETERS = ("max_size_bytes",)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. `path` is None for a store in memory.

    `max_size_bytes` bounds the database file (None: only the disk does). The write-ahead log beside it is extra,
    usually below 5 MB. A file that is already larger keeps its size.
    """

    path: Path | None
    max_size_bytes: int | None = None


def parse_address(url: str, directory: Path) -> Address:
    """Read `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite://:memory:`; percent-escapes are decoded.

    Raises:
        ConfigurationError: it is none of these.
    """
    location, _, query = url.removeprefix(SCHEME).partition("?")
    max_size_bytes = _max_size_bytes(url, query)
    if not url.startswith(SCHEME):
        raise ConfigurationError(f"{url!r} is not a SQLite store; write sqlite:///gateway.db")
    if location in (MEMORY, f"/{MEMORY}"):
        return Address(None, max_size_bytes)
    if location in ("", "/"):
        raise ConfigurationError(f"{url!r} names no file; write sqlite:///gateway.db, or sqlite://:memory: for tests")
    if not location.startswith("/"):
        raise ConfigurationError(
            f"{url!r} has too few slashes; write sqlite:///{location} for a file beside the configuration,"
            f" sqlite:////{location} for an absolute path"
        )
    name = unquote(location[1:])
    if "\0" in name:
        raise ConfigurationError(f"{url!r} has a NUL character in its path")
    return Address(directory / name, max_size_bytes)


def _max_size_bytes(url: str, query: str) -> int | None:
    size: int | None = None
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            close = get_close_matches(name, _PARAMETERS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(_PARAMETERS)}"
            raise ConfigurationError(f"unknown parameter {name!r} in {url!r}; {hint}")
        if not (value.isascii() and value.isdigit() and int(value) >= MINIMUM_SIZE_BYTES):
            raise ConfigurationError(
                f"max_size_bytes={value!r} in {url!r} is not a size; write a number of bytes,"
                f" at least {MINIMUM_SIZE_BYTES}"
            )
        size = int(value)
    return size
