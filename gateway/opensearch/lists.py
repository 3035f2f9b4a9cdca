"""Lists and searches of threads, runs and approvals.

Below: threads, runs, sources. Above: the store. A search finds candidates: each is read by its id before it is shown,
so that no list shows what is not committed, or is gone. This process's own writes are searchable; those of others may
take a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, Message
from gateway.opensearch import run_record
from gateway.opensearch.ids import digest
from gateway.opensearch.indices import APPROVALS, MESSAGES, RUNS, THREADS
from gateway.opensearch.run_record import StoredRun, thread_id_of
from gateway.opensearch.runs import Runs
from gateway.opensearch.sources import Found, Key, Sources
from gateway.opensearch.thread_record import ThreadRecord, positions
from gateway.opensearch.thread_writes import approval_key
from gateway.opensearch.threads import Threads, thread_key
from gateway.records import load_json
from gateway.store import Approval, Page, RunFilter, RunRecord, RunStatus, ThreadSummary
from gateway.store.cursors import place_cursor, read_time, time_cursor

MOST_HITS: Final = 10_000
"""The last hit that a search shows (`index.max_result_window`)."""
_AT_ONCE = 1_000
_MESSAGES_AT_ONCE = 100


class Lists:
    """The lists of a store."""

    def __init__(self, sources: Sources, threads: Threads, runs: Runs) -> None:
        self._sources = sources
        self._threads = threads
        self._runs = runs

    # --- threads

    async def threads(self, owner: str, limit: int, cursor: str | None, skip: int) -> Page[ThreadSummary]:
        """As ThreadStore.list_threads."""
        after = None if cursor is None else read_time(b"t", cursor)
        query = _all_of({"term": {"owner": digest(owner)}}, {"term": {"listed": True}})
        if skip + limit + 1 > MOST_HITS:
            if skip >= MOST_HITS:
                await self._threads.settled()
                if await self._sources.count(THREADS, query) <= skip:
                    return Page((), None)
                raise InvalidRequestError(
                    f"only the first {MOST_HITS} threads can be skipped; go on with the cursor of a page", status=400
                )
            limit = MOST_HITS - skip - 1
        found: list[ThreadSummary] = []
        places: list[tuple[float, int]] = []
        while True:
            wanted = min(skip + limit + 1 - len(found), max(skip + 1, _AT_ONCE))
            hits = await self._found_threads(_sorted(query, "updated_at", after, wanted), skip)
            wanted, skip = wanted - skip, 0
            for at, record in hits:
                after = (at[0], int(at[1]))
                if record is not None and record.about.listed and record.about.owner == owner:
                    found.append(record.summary)
                    places.append((record.about.updated_at, record.order))
            if len(hits) < wanted or len(found) > limit:
                break
        more = len(found) > limit
        return Page(tuple(found[:limit]), time_cursor(b"t", *places[limit - 1]) if more else None)

    async def _found_threads(self, body: JsonObject, skip: int = 0) -> list[tuple[Sequence[Any], ThreadRecord | None]]:
        """The records of the threads that a search finds after the first `skip`, and what they were sorted by."""
        await self._threads.settled()
        hits = (await self._sources.search(THREADS, {**body, "_source": False}))[skip:]
        documents = await self._sources.read([Key(THREADS, hit.document_id) for hit in hits])
        return [
            (hit.sort, None if document is None else self._threads.decoded(document))
            for hit, document in zip(hits, documents, strict=True)
        ]

    async def messages(
        self, owner: str, thread_id: str, start: int, limit: int, version: int | None, max_bytes: int | None
    ) -> Page[Message]:
        """As ThreadStore.list_messages, from message number `start` on."""
        record = await self._threads.record((owner, thread_id))
        content = None if record is None else record.versions.get(record.about.version if version is None else version)
        if record is None or content is None:
            return Page((), None)
        places = positions(content, start, limit + 1, hidden=version is not None)
        found: list[Message] = []
        size = 0
        while len(found) < min(limit, len(places)) and (max_bytes is None or size < max_bytes):
            some = places[len(found) : min(len(found) + _MESSAGES_AT_ONCE, limit)]
            for kept in await self._threads.messages(record, some):
                found.append(kept.message)
                size += kept.size
                if max_bytes is not None and size >= max_bytes:
                    break
        more = len(places) > len(found)
        return Page(tuple(found), place_cursor(b"m", start + len(found)) if more else None)

    async def with_message(self, owner: str, message_id: str, limit: int) -> list[str]:
        """As ThreadStore.find_message."""
        body: JsonObject = {
            "query": _all_of({"term": {"owner": digest(owner)}}, {"term": {"message": digest(message_id)}}),
            "_source": ["thread", "position"],
            "size": _AT_ONCE,
        }
        await self._threads.settled()
        hits = await self._sources.search(MESSAGES, body)
        places: dict[str, set[int]] = {}
        for hit in hits:
            places.setdefault(hit.source["thread"], set()).add(hit.source["position"])
        documents = await self._sources.read([Key(THREADS, each) for each in places])
        records: list[ThreadRecord] = []
        for thread, document in zip(places, documents, strict=True):
            record = None if document is None else self._threads.decoded(document)
            if record is None or record.about.owner != owner:
                continue
            shown = [place for place in positions(record.current) if place in places[thread]]
            if message_id in [each.message.id for each in await self._threads.messages(record, shown)]:
                records.append(record)
        records.sort(key=lambda each: (each.about.listed, each.about.updated_at, each.order), reverse=True)
        return [record.about.thread_id for record in records[:limit]]

    async def expired(self, by: float, limit: int) -> list[tuple[str, str]]:
        """As RetentionStore.expired_threads."""
        query = _all_of({"range": {"expires_at": {"lt": by}}}, {"range": {"lives_until": {"lt": by}}})
        body: JsonObject = {"query": query, "sort": [{"expires_at": "asc"}, {"order": "asc"}], "size": limit}
        records = [record for _, record in await self._found_threads(body) if record is not None]
        return [
            (each.about.owner, each.about.thread_id)
            for each in records
            if each.expires_at is not None and each.expires_at < by
        ]

    async def idle_visitors(self, before: float, limit: int) -> list[tuple[str, str]]:
        """As RetentionStore.idle_visitor_threads."""
        query = _all_of({"term": {"visitor": True}}, {"range": {"updated_at": {"lt": before}}})
        body: JsonObject = {"query": query, "sort": [{"updated_at": "asc"}, {"order": "asc"}], "size": limit}
        records = [record for _, record in await self._found_threads(body) if record is not None]
        return [(each.about.owner, each.about.thread_id) for each in records if each.about.updated_at < before]

    # --- approvals

    async def approvals(self, now: float, limit: int, cursor: str | None) -> Page[Approval]:
        """As RunStore.list_approvals."""
        after = None if cursor is None else read_time(b"a", cursor)
        alive: JsonObject = {
            "bool": {
                "should": [
                    {"range": {"expires_at": {"gt": now}}},
                    {"bool": {"must_not": [{"exists": {"field": "expires_at"}}]}},
                ]
            }
        }
        found: list[Approval] = []
        places: list[tuple[float, int]] = []
        await self._threads.settled()
        while True:
            wanted = min(limit + 1 - len(found), _AT_ONCE)
            body = _sorted(_all_of({"term": {"waits": True}}, alive), "opened_at", after, wanted, "asc")
            hits = await self._sources.search(APPROVALS, body)
            named = [load_json(str(hit.source["record"]).encode()) for hit in hits]
            threads = await self._sources.read([thread_key(*each[:2]) for each in named])
            for hit, (owner, thread_id, approval_id), thread in zip(hits, named, threads, strict=True):
                after = (hit.sort[0], int(hit.sort[1]))
                record = None if thread is None else self._threads.decoded(thread)
                if record is None or record.key != hit.source["life"]:
                    continue
                for asked in record.interrupts:
                    if asked.approval_id == approval_id:
                        found.append(Approval(owner, thread_id, asked))
                        places.append(after)
            if len(hits) < wanted or len(found) > limit:
                break
        more = len(found) > limit
        return Page(tuple(found[:limit]), time_cursor(b"a", *places[limit - 1]) if more else None)

    async def approval(self, approval_id: str) -> tuple[str, str] | None:
        """As RunStore.find_approval."""
        found = await self._sources.read_one(approval_key(approval_id))
        if found is None:
            return None
        owner, thread_id, _ = load_json(found.record)
        record = await self._threads.record((owner, thread_id))
        return None if record is None or record.key != found.source["life"] else (owner, thread_id)

    # --- runs

    async def runs(
        self, owner: str, wanted: RunFilter, limit: int, cursor: str | None, total: int | None
    ) -> tuple[Page[RunRecord], int]:
        """As RunStore.find_runs."""
        after = None if cursor is None else read_time(b"o", cursor)
        await self._threads.settled()
        query = await self._wanted(owner, wanted)
        found: list[StoredRun] = []
        while True:
            size = min(limit + 1 - len(found), _AT_ONCE)
            hits = await self._sources.search(RUNS, _sorted(query, "changed_at", after, size))
            runs = await self._of_hits([hit.document_id for hit in hits])
            found += [each for each in runs if each is not None]
            if len(hits) < size or len(found) > limit:
                break
            after = (hits[-1].sort[0], int(hits[-1].sort[1]))
        if total is None:
            are_all = cursor is None and len(found) <= limit
            total = len(found) if are_all else await self._sources.count(RUNS, query)
        items = tuple([each.run for each in found[:limit]])
        cursors = tuple([time_cursor(b"o", each.run.changed_at, each.order) for each in found[:limit]])
        return Page(items, cursors[-1] if len(found) > limit else None, cursors), total

    async def _of_hits(self, document_ids: Sequence[str]) -> list[StoredRun | None]:
        """The runs that a search found, as of now."""
        documents = await self._sources.read([Key(RUNS, document_id) for document_id in document_ids])
        seen = [None if each is None else run_record.decode(each) for each in documents]
        now = await self._runs.confirmed({(each.run.owner, each.run.run_id): each for each in seen if each is not None})
        return [None if each is None else now.get((each.run.owner, each.run.run_id)) for each in seen]

    async def _wanted(self, owner: str, wanted: RunFilter) -> JsonObject:
        filters: list[JsonObject] = [{"term": {"owner": digest(owner)}}, {"term": {"origin": digest(wanted.origin)}}]
        if wanted.thread_id is not None:
            filters.append({"term": {"thread": thread_id_of(owner, wanted.thread_id)}})
        if wanted.agent_id is not None:
            filters.append({"term": {"agent": digest(wanted.agent_id)}})
        if wanted.since is not None:
            filters.append({"range": {"changed_at": {"gte": wanted.since}}})
        if wanted.statuses is not None:
            ways: list[JsonObject] = [{"terms": {"status": [*sorted(wanted.statuses)]}}]
            if wanted.followed:
                ways.append(_all_of({"terms": {"status": [*sorted(wanted.followed)]}}, {"term": {"followed": True}}))
            filters.append({"bool": {"should": [*ways]}})
        older = await self._older(owner, wanted)
        return {"bool": {"filter": [*filters], "must_not": [{"ids": {"values": [*older]}}]}}

    async def _older(self, owner: str, wanted: RunFilter) -> list[str]:
        """The documents of runs after which a newer one with the same stem came. Of two such runs one has an id that is
        longer than the stem, and few runs have such an id.
        """
        longer = _all_of(
            {"term": {"owner": digest(owner)}},
            {"term": {"origin": digest(wanted.origin)}},
            {"range": {"length": {"gt": wanted.stem}}},
        )
        newest: dict[str, StoredRun] = {}
        older: list[str] = []
        runs = await self.every(RUNS, longer)
        named = [run_record.decode(each) for each in runs]
        stems = {each.run.run_id[: wanted.stem] for each in named}
        firsts = [(owner, stem) for stem in stems]
        named += [each for each in (await self._runs.find(firsts)).values() if each.run.origin == wanted.origin]
        confirmed = await self._runs.confirmed({(owner, each.run.run_id): each for each in named})
        for each in sorted(confirmed.values(), key=lambda run: run.order):
            stem = each.run.run_id[: wanted.stem]
            if stem in newest:
                older.append(run_record.run_key(owner, newest[stem].run.run_id).document_id)
            newest[stem] = each
        return older

    async def every(self, name: str, query: JsonObject) -> list[Found]:
        """All documents of an index that a query finds, in their order."""
        return [found async for page in self._sources.pages(name, query, ("order",)) for found in page]

    async def queued(self, owner: str, thread_id: str) -> list[StoredRun]:
        """The thread's runs that have not begun."""
        await self._threads.settled()
        of_thread: JsonObject = {"term": {"thread": thread_id_of(owner, thread_id)}}
        found = await self.every(RUNS, _all_of(of_thread, {"term": {"begun": False}}))
        runs = [run_record.decode(each) for each in found]
        confirmed = await self._runs.confirmed({(owner, each.run.run_id): each for each in runs})
        return [each for each in confirmed.values() if each.waits]

    async def some_runs(self, query: JsonObject, count: int) -> list[StoredRun]:
        """Some of the runs that a query finds, the first that ended first."""
        await self._threads.settled()
        body: JsonObject = {"query": query, "sort": [{"finished_at": "asc"}, {"order": "asc"}], "size": count}
        hits = await self._sources.search(RUNS, body)
        found = await self._of_hits([hit.document_id for hit in hits])
        return [each for each in found if each is not None]

    async def unfinished(self) -> list[RunRecord]:
        """As RunStore.unfinished_runs."""
        await self._threads.settled()
        status: JsonObject = {"terms": {"status": [RunStatus.QUEUED.value, RunStatus.RUNNING.value]}}
        runs = [run_record.decode(each) for each in await self.every(RUNS, status)]
        confirmed = await self._runs.confirmed({(each.run.owner, each.run.run_id): each for each in runs})
        left = await self._not_elsewhere([each for each in confirmed.values() if not each.run.status.ended])
        return [each.run for each in left]

    async def _not_elsewhere(self, runs: Sequence[StoredRun]) -> list[StoredRun]:
        """Those of these runs that no other gateway has, in their order."""
        keys = [(each.run.owner, each.run.thread_id) for each in runs]
        records = await self._threads.records([*dict.fromkeys(keys)])
        free: list[StoredRun] = []
        for each, key in zip(runs, keys, strict=True):
            holders: list[StoredRun | ThreadRecord] = [each] if each.waits else []
            if (record := records[key]) is not None:
                holders.append(record)
            if not [holder for held in holders if (holder := await self._threads.holder_of(held))]:
                free.append(each)
        return sorted(free, key=lambda each: each.order)

    async def waiting(self) -> list[tuple[RunRecord, tuple[Message, ...]]]:
        """As RunStore.waiting_runs."""
        await self._threads.settled()
        ways: list[Any] = [{"term": {"status": RunStatus.QUEUED.value}}, {"term": {"waits": True}}]
        found = await self.every(RUNS, {"bool": {"should": ways}})
        runs = [run_record.decode(each) for each in found]
        confirmed = await self._runs.confirmed({(each.run.owner, each.run.run_id): each for each in runs})
        waiting = [
            each
            for each in confirmed.values()
            if each.run.status is RunStatus.QUEUED or each.moved.waiting_messages is not None
        ]
        return [(each.run, each.waiting_messages) for each in await self._not_elsewhere(waiting)]

    async def summed(self, site: str) -> int:
        """The bytes that a site's visitors have in threads and logs."""
        await self._threads.settled()
        total = 0
        for name in (THREADS, RUNS):
            await self._sources.cluster.refreshed(name)
            body: JsonObject = {
                "size": 0,
                "query": {"term": {"site": digest(site)}},
                "aggs": {"bytes": {"sum": {"field": "bytes"}}},
            }
            answer = await self._sources.cluster.request("POST", f"/{self._sources.cluster.index(name)}/_search", body)
            found: Any = answer.body
            total += int(found["aggregations"]["bytes"]["value"])
        return total


def _all_of(*filters: JsonObject) -> JsonObject:
    return {"bool": {"filter": [*filters]}}


def _sorted(
    query: JsonObject, field: str, after: tuple[float, int] | None, size: int, direction: str = "desc"
) -> JsonObject:
    """A search sorted by a time, then by `order`, after a place in that order."""
    body: JsonObject = {"query": query, "sort": [{field: direction}, {"order": direction}], "size": size}
    if after is not None:
        body["search_after"] = [*after]
    return body
