"""The store URL: which file, and how large it may grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from gateway.errors import ConfigurationError

SCHEME = "sqlite://"
MEMORY = ":memory:"
MINIMUM_SIZE_BYTES = 128 * 1024

DEFAULT_WAIT_SECONDS = 60
SHORTEST_WAIT_SECONDS = 5  # as long as new runs wait
LONGEST_WAIT_SECONDS = 3600

_PARAMETERS = ("max_size_bytes", "max_wait_seconds")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. `path` is None for a store in memory.

    `max_size_bytes` bounds the database file (None: only the disk does). The write-ahead log beside it is extra,
    usually below 5 MB. A file that is already larger keeps its size. `max_wait_seconds`: how long runs under way wait
    while another program holds the file.
    """

    path: Path | None
    max_size_bytes: int | None = None
    max_wait_seconds: int = DEFAULT_WAIT_SECONDS


def parse_address(url: str, directory: Path) -> Address:
    """Read `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite://:memory:`; percent-escapes are decoded.

    Raises:
        ConfigurationError: the URL is none of these, or a parameter is wrong.
    """
    location, _, query = url.removeprefix(SCHEME).partition("?")
    values = _parameters(url, query)
    max_size_bytes = _max_size_bytes(url, values)
    max_wait_seconds = _max_wait_seconds(url, values)
    if not url.startswith(SCHEME):
        raise ConfigurationError(f"{url!r} is not a SQLite store; write sqlite:///gateway.db")
    if location in (MEMORY, f"/{MEMORY}"):
        return Address(None, max_size_bytes, max_wait_seconds)
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
    return Address(directory / name, max_size_bytes, max_wait_seconds)


def _parameters(url: str, query: str) -> dict[str, str]:
    values = dict(parse_qsl(query, keep_blank_values=True))
    for name in values:
        if name not in _PARAMETERS:
            close = get_close_matches(name, _PARAMETERS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(_PARAMETERS)}"
            raise ConfigurationError(f"unknown parameter {name!r} in {url!r}; {hint}")
    return values


def _max_size_bytes(url: str, values: Mapping[str, str]) -> int | None:
    if (value := values.get("max_size_bytes")) is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) >= MINIMUM_SIZE_BYTES):
        raise ConfigurationError(
            f"max_size_bytes={value!r} in {url!r} is not a size; write a number of bytes, at least {MINIMUM_SIZE_BYTES}"
        )
    return int(value)


def _max_wait_seconds(url: str, values: Mapping[str, str]) -> int:
    value = values.get("max_wait_seconds", str(DEFAULT_WAIT_SECONDS))
    if not (value.isascii() and value.isdigit() and SHORTEST_WAIT_SECONDS <= int(value) <= LONGEST_WAIT_SECONDS):
        raise ConfigurationError(
            f"max_wait_seconds={value!r} in {url!r} is not a time; write a number of whole seconds,"
            f" from {SHORTEST_WAIT_SECONDS} to {LONGEST_WAIT_SECONDS}"
        )
    return int(value)
