"""Reads JSON as model providers write it, with their oddities. Clients' JSON is read by `strict_json`. Pure."""

from __future__ import annotations

import json

import orjson


def load(data: bytes) -> object:
    """The JSON value in `data`. It accepts half a surrogate pair, NaN and broken UTF-8, which some servers write.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except RecursionError as error:
            raise ValueError("nested too deep") from error
