"""The kinds of documents in which memory containers and their contents are stored.

Below: documents. Above: the documents' readers and the protocols. The fields are those of ml-commons' indices:
https://docs.opensearch.org/latest/ml-commons-plugin/agentic-memory/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gateway.documents.document import DocumentKind
from gateway.messages import JsonObject

MemoryType: TypeAlias = Literal["sessions", "working", "long-term", "history"]

_KEYWORD: Final[JsonObject] = {"type": "keyword"}
_FLAT: Final[JsonObject] = {"type": "flat_object"}
_TEXT: Final[JsonObject] = {"type": "text"}
_TIME: Final[JsonObject] = {"type": "date"}
_NUMBER: Final[JsonObject] = {"type": "integer"}
_FLAG: Final[JsonObject] = {"type": "boolean"}
_OF_ALL: Final[JsonObject] = {
    "memory_container_id": _KEYWORD,
    "owner_id": _KEYWORD,
    "namespace": _FLAT,
    "namespace_size": _NUMBER,
    "created_time": _TIME,
    "last_updated_time": _TIME,
}

CONTAINERS: Final = DocumentKind(
    "memory container",
    {
        "name": {"type": "text", "fields": {"keyword": _KEYWORD}},
        "description": _TEXT,
        "owner": {"properties": {"name": _KEYWORD}},
        "backend_roles": _KEYWORD,
        "created_time": _TIME,
        "last_updated_time": _TIME,
        "configuration": _FLAT,
    },
    own_ids=True,
)
SESSIONS: Final = DocumentKind(
    "memory session",
    {**_OF_ALL, "summary": _TEXT, "metadata": _FLAT, "agents": _FLAT, "additional_info": _FLAT, "pinned": _FLAG},
    own_ids=True,
)
"""Its id is that of the session's thread."""

WORKING: Final = DocumentKind(
    "working memory",
    {
        **_OF_ALL,
        "payload_type": _KEYWORD,
        "messages": {"type": "nested", "properties": {"role": _KEYWORD, "content": _FLAT}},
        "message_id": _NUMBER,
        "session_id": _KEYWORD,
        "checkpoint_id": _KEYWORD,
        "infer": _FLAG,
        "structured_data": _FLAT,
        "metadata": _FLAT,
        "tags": _FLAT,
        "parameters": _FLAT,
        "text": _TEXT,
    },
    own_ids=True,
)
"""Data, and one document for each message of the sessions' threads: `text` has a message's words, and `messages` too,
as clients search them in ml-commons."""

LONG_TERM: Final = DocumentKind(
    "long-term memory",
    {
        **_OF_ALL,
        "memory": _TEXT,
        "strategy_type": _KEYWORD,
        "strategy_id": _KEYWORD,
        "tags": _FLAT,
        "pinned": _FLAG,
    },
    own_ids=True,
)
HISTORY: Final = DocumentKind(
    "memory history",
    {
        **_OF_ALL,
        "memory_id": _KEYWORD,
        "action": _KEYWORD,
        "before": {"properties": {"memory": _TEXT}},
        "after": {"properties": {"memory": _TEXT}},
        "tags": _FLAT,
        "error": _TEXT,
        "pinned": _FLAG,
    },
    own_ids=True,
)

CONTAINER_INDEX: Final = ".plugins-ml-am-memory-container"


@dataclass(frozen=True, slots=True)
class Memories:
    """One type of a container's memories: the kind of its documents, and the name that their index would have in
    OpenSearch.
    """

    type: MemoryType
    kind: DocumentKind

    @property
    def index(self) -> str:
        return f".plugins-ml-am-default-memory-{self.type}"


MEMORIES: Final = {
    each.type: each
    for each in (
        Memories("sessions", SESSIONS),
        Memories("working", WORKING),
        Memories("long-term", LONG_TERM),
        Memories("history", HISTORY),
    )
}
