"""The values of stored documents that are searched.

Below: entries. Above: the stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.documents.document import MAX_DOCUMENT_BYTES, MAX_ENTRIES, MAX_TEXT_CHARACTERS, DocumentKind
from gateway.embedded_index.entries import has_more_entries
from gateway.errors import TooLargeError
from gateway.query_dsl.field_mapping import (
    FieldType,
    MappingError,
    SearchedObject,
    TooMuchSearchedError,
    searched_object,
)
from gateway.records import load_json


def searched_in(kind: DocumentKind, source: bytes) -> SearchedObject:
    """The values of a new document that are indexed.

    Raises:
        MappingError: the value of a searched field does not have the field's type.
        TooLargeError: it is too large, or too much of it would be searched: too many values, or too long a text.
    """
    if len(source) > MAX_DOCUMENT_BYTES:
        raise TooLargeError(f"the {kind.name} has {len(source)} bytes; at most {MAX_DOCUMENT_BYTES} are stored")
    bounds: dict[str, Any] = {"most_values": MAX_ENTRIES, "longest": MAX_TEXT_CHARACTERS}
    try:
        searched = searched_object(load_json(source), kind.types, **bounds)  # from the stored text, as for its removal
    except TooMuchSearchedError as error:
        raise TooLargeError(f"the {kind.name} is too large to be searched: {error}") from error
    if has_more_entries(searched, MAX_ENTRIES):
        raise TooLargeError(f"more than {MAX_ENTRIES} words and values of the {kind.name} would be searched")
    return searched


def searched_again(source: bytes, types: Mapping[str, FieldType]) -> SearchedObject:
    """The indexed values of a stored document: none if a value no longer fits the type of its field."""
    try:
        return searched_object(load_json(source), types)
    except MappingError:
        return SearchedObject()
