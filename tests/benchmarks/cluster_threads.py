"""Fills a store in a cluster with threads, as runs left them, by its own documents, without a gateway."""

from __future__ import annotations

import time
from pathlib import Path

from gateway.opensearch.address import parse_address
from gateway.opensearch.bulks import Bulks, Item
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.ids import Order, new_token
from gateway.opensearch.indices import make_indices
from gateway.opensearch.membership import Membership
from gateway.opensearch.run_record import StoredRun, run_items
from gateway.opensearch.sources import Sources, write
from gateway.opensearch.thread_record import with_run
from gateway.opensearch.thread_writes import ThreadWrites
from gateway.opensearch.threads import Threads, document_of, thread_key
from gateway.store.transfer import MovedRun
from tests.benchmarks.scenarios import kept_run

_AT_ONCE = 1_000
_SECONDS = 120.0


async def keep_threads(url: str, count: int) -> None:
    """Threads with a message and a run, every tenth of which is to expire one day."""
    cluster = Cluster(parse_address(url, Path()))
    try:
        await make_indices(cluster)
        bulks, order = Bulks(cluster), Order()
        sources = Sources(cluster, bulks)
        threads = Threads(sources, order, Membership(sources))
        writes = ThreadWrites(threads, order)
        for first in range(0, count, _AT_ONCE):
            items: list[Item] = []
            for number in range(first, min(first + _AT_ONCE, count)):
                items += await _items(writes, order, number)
            await bulks.write(items, seconds=_SECONDS)
    finally:
        await cluster.close()


async def _items(writes: ThreadWrites, order: Order, number: int) -> list[Item]:
    run, thread = kept_run(number, time.time())
    change = await writes.written(None, thread, 0, None)
    stored = StoredRun(MovedRun(run, has_log=False), order.next(), new_token(), life=change.record.key, stands=True)
    record, _ = with_run(change.record, run.run_id)
    source, parts = document_of(record, new_token())
    key = thread_key(thread.owner, thread.thread_id)
    return [*change.items, *run_items("create", stored, followed=False), *parts, write("create", key, source)]
