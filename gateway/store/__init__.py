"""The contract of stores, one file for each subject. They depend on no particular store.

store.py       the contract of a whole store, and the `StoreType` part
threads.py     threads, their messages and versions
runs.py        runs, their logs, and the approvals that they wait for
gateways.py    the gateways that use one store, and which of them has a thread
retention.py   how long threads and logs stay, and the deletions that are due
thread_documents.py   the documents that a store makes of messages
pages.py       pages of lists
cursors.py     their cursors
spans.py       which messages each version has
log_lines.py   what the lines of a run's log say
transfer.py    everything that a store keeps, in pieces, for another store
piece_json.py  these pieces as JSON
export_file.py the file in which the pieces move

Below: events, messages, documents. Above: the stores, the runner.
"""

from gateway.clock import Kept
from gateway.findings import Finding, Level
from gateway.store.gateways import Alone, Gateway, GatewayEvents, Gateways, HeldElsewhereError
from gateway.store.pages import Item, Page
from gateway.store.retention import LEAST_LIFE_SECONDS, PAUSED_LIFE_SECONDS, DueDeletion, RetentionStore
from gateway.store.runs import (
    Approval,
    NumberedEvent,
    RunFilter,
    RunRecord,
    RunsAndThread,
    RunStatus,
    RunStore,
    Terminal,
)
from gateway.store.store import Store, StoreEnvironment, StoreType, Vacuumed
from gateway.store.thread_documents import DOCUMENTS_AT_ONCE, ThreadDocuments
from gateway.store.threads import (
    MOST_VERSIONS,
    Fork,
    Thread,
    ThreadChange,
    ThreadStore,
    ThreadSummary,
    ThreadVersion,
    VersionContent,
)

__all__ = [
    "DOCUMENTS_AT_ONCE",
    "LEAST_LIFE_SECONDS",
    "MOST_VERSIONS",
    "PAUSED_LIFE_SECONDS",
    "Alone",
    "Approval",
    "DueDeletion",
    "Finding",
    "Fork",
    "Gateway",
    "GatewayEvents",
    "Gateways",
    "HeldElsewhereError",
    "Item",
    "Kept",
    "Level",
    "NumberedEvent",
    "Page",
    "RetentionStore",
    "RunFilter",
    "RunRecord",
    "RunStatus",
    "RunStore",
    "RunsAndThread",
    "Store",
    "StoreEnvironment",
    "StoreType",
    "Terminal",
    "Thread",
    "ThreadChange",
    "ThreadDocuments",
    "ThreadStore",
    "ThreadSummary",
    "ThreadVersion",
    "Vacuumed",
    "VersionContent",
]
