"""Text as values of rows, and back.

Below: nothing. Above: tables and run_rows.
"""

from __future__ import annotations


def to_text(value: str) -> str | bytes:
    """The text as it is stored: as bytes if it has lone surrogates, which UTF-8 does not allow."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def from_text(value: str | bytes) -> str:
    """The text that `to_text` encoded."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def to_optional_text(value: str | None) -> str | bytes | None:
    return None if value is None else to_text(value)


def from_optional_text(value: str | bytes | None) -> str | None:
    return None if value is None else from_text(value)
