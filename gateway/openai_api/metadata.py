"""A client's notes on a response or a conversation: up to 16 texts by name.

Below: fields. Above: the readers of bodies. Pure.
https://platform.openai.com/docs/api-reference/conversations/create#conversations_create-metadata
"""

from __future__ import annotations

from typing import Final

from gateway.messages import JsonObject, json_kind
from gateway.openai_api.fields import OpenAIFields

MOST_PAIRS: Final = 16
MOST_NAME: Final = 64
MOST_TEXT: Final = 512


def read_metadata(fields: OpenAIFields, name: str = "metadata") -> JsonObject | None:
    """The member of that name; None where there is none. Problems are noted."""
    given = fields.object(name)
    if given is None:
        return None
    called = fields.called(name)
    if len(given) > MOST_PAIRS:
        fields.wrong(name, f"{called} has {len(given):,} members; it may have {MOST_PAIRS}")
        return None
    inside = fields.below(name, given)
    for key, value in given.items():
        if len(key) > MOST_NAME:
            shown = f"{key[:MOST_NAME]}..."
            fields.wrong(name, f"the name {shown!r} in {called} has {len(key):,} characters; it may have {MOST_NAME}")
        elif not isinstance(value, str):
            inside.wrong(key, f"{inside.called(key)} must be a string, not {json_kind(value)}")
        elif len(value) > MOST_TEXT:
            at = inside.called(key)
            inside.wrong(key, f"{at} has {len(value):,} characters; it may have {MOST_TEXT}")
    return {**given}
