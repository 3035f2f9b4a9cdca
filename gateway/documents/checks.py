"""What every store of documents checks before it writes one, with the words of the refusal.

Below: document. Above: the stores.
"""

from __future__ import annotations

from gateway.documents.document import MAX_ID_LENGTH, DocumentKind
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject
from gateway.records import dump_json


def check_id(kind: DocumentKind, document_id: str, *, public: bool) -> None:
    """Raises InvalidRequestError if no document of the kind can have this id, or be public."""
    if not 0 < len(document_id) <= MAX_ID_LENGTH:
        raise InvalidRequestError(f"the id of a {kind.name} has 1 to {MAX_ID_LENGTH} characters")
    if public and kind.own_ids:
        raise InvalidRequestError(f"a {kind.name} cannot be public: each owner has ids of its own")


def dumped_body(body: JsonObject) -> bytes:
    """The body as it is stored. Raises InvalidRequestError if it is nested too deeply."""
    try:
        return dump_json(body)
    except ValueError as error:
        raise InvalidRequestError("the document is nested too deeply", code="invalid_document") from error


def check_change(
    kind: DocumentKind, document_id: str, owner: str, stored: tuple[str, int] | None, if_version: int | None
) -> None:
    """Raises ConflictError if the owner may not write this document, as DocumentStore.put says. `stored`: the owner and
    the version of the stored one.
    """
    if stored is not None and (if_version == 0 or stored[0] != owner):
        raise ConflictError(f"the id {document_id!r} is taken by another {kind.name}; choose another", code="id_taken")
    found = 0 if stored is None else stored[1]
    if if_version is not None and if_version != found:
        there = f"has the version {found}" if found else "does not exist"
        raise ConflictError(
            f"the {kind.name} {document_id!r} {there}, and not the version {if_version}; read it again",
            code="version_conflict",
        )


def check_number(kind: DocumentKind, number: int, most: int) -> None:
    """Raises ConflictError if an owner with so many documents may have no other one."""
    if number >= most:
        raise ConflictError(
            f"you have {number} {kind.name}s, and may have {most}; delete one that you do not need", code="too_many"
        )


def no_thread(thread_id: str) -> NotFoundError:
    """The error of a document that is to belong to a thread that its owner does not have."""
    return NotFoundError(f"there is no thread {thread_id!r}")
