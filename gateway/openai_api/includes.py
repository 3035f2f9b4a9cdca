"""Reads `include`, in the query of a list and in a request's body. Pure.

Below: errors, fields. Above: responses_request; the protocols of conversations and of stored responses.
https://platform.openai.com/docs/api-reference/responses/create#responses_create-include
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.openai_api.errors import wrong
from gateway.openai_api.fields import OpenAIFields

ENCRYPTED: Final = "reasoning.encrypted_content"
"""The only one that changes an answer: what the others name is there in any case, or there is no such item."""

_LOGPROBS: Final = "message.output_text.logprobs"
_OFFERED: Final = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    ENCRYPTED,
)
_OF_LISTS: Final = frozenset({*_OFFERED, _LOGPROBS})


def includes_asked(query: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The words of a query's `include`: `include[]=...`, as the SDKs write it, or `include=...`.

    Raises:
        InvalidRequestError: 400
    """
    asked = frozenset(value for name, value in query if name in ("include", "include[]"))
    for each in sorted(asked - _OF_LISTS):
        raise wrong(f"include has {each[:64]!r}; it may name {', '.join(sorted(_OF_LISTS))}", "/include")
    return asked


def read_includes(fields: OpenAIFields) -> list[str]:
    """The words of a body's `include`. Problems are noted: no answer has log probabilities."""
    names = fields.strings("include") or []
    for place, name in enumerate(names):
        if fields.is_full:
            break
        if name not in _OFFERED:
            why = "this gateway knows no log probabilities" if name == _LOGPROBS else "there is no such value"
            known = ", ".join(_OFFERED)
            fields.wrong_at(f"include/{place}", f"include[{place}] is {name[:64]!r}, but {why}; known are: {known}")
    return names
