"""Reads generation options that bodies of several protocols write alike.

Below: fields. Above: the protocols' readers of bodies.
"""

from __future__ import annotations

from typing import Final

from gateway.protocol.fields import Fields

_MOST_SEED: Final = 2**63


def read_stop(body: Fields) -> tuple[str, ...] | None:
    """`stop`: a text, or an array of texts. Problems are noted."""
    if (value := body.value.get("stop")) is None:
        return None
    if isinstance(value, str):
        return (value,) if value else None
    if not isinstance(value, list):
        body.wrong("stop", f"{body.called('stop')} must be a string or an array of strings")
        return None
    return tuple(each for each in body.strings("stop") or () if each) or None


def read_seed(body: Fields) -> int | None:
    """`seed`: a whole number. Problems are noted."""
    value = body.value.get("seed")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and -_MOST_SEED <= value < _MOST_SEED:
        return value
    body.wrong("seed", f"{body.called('seed')} must be a whole number of at most 64 bits")
    return None
