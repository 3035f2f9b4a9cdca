"""The embedded store's documents: keeps each promise of `DocumentStore` with rows and commits.

Below: document_rows, access, key_file, private_files. Above: store. Values are encrypted on the writer thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from gateway.agent import Secret
from gateway.clock import Clock
from gateway.documents.checks import check_id, dumped_body
from gateway.documents.document import Document, DocumentKind
from gateway.documents.sealing import Sealing, parse_key, put_together, taken_apart, texts_in
from gateway.embedded_index.document_values import searched_in
from gateway.errors import InvalidRequestError, ToolError, UnavailableError
from gateway.messages import JsonObject, JsonValue
from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.field_mapping import MappingError
from gateway.sqlite import document_rows
from gateway.sqlite.access import StoreAccess
from gateway.sqlite.document_rows import NewDocument, StaleIndexError
from gateway.sqlite.key_file import key_file, make_key, read_key
from gateway.sqlite.private_files import tighten


class MasterKeys:
    """The operator's keys; without any, the key in a file beside the store, generated when it is first needed."""

    def __init__(self, given: Sequence[Secret]) -> None:
        self._given = [parse_key(key.reveal()) for key in given]
        self._file: Path | None = None
        self.sealing = Sealing(self._given)

    def open(self, store: Path | None) -> None:
        """Read the key file, if it exists. Blocks. `store`: the store's file, None for a store in memory."""
        if store is not None:
            tighten(key_file(store), ())
        self.read(store)

    def read(self, store: Path | None) -> None:
        """As `open`, without a change to the file."""
        self.sealing = Sealing(self._given)
        self._file = None if store is None else key_file(store)
        if self._file is not None and (key := read_key(self._file)) is not None:
            self.sealing.add(key)

    def check(self, key_ids: Iterable[str]) -> None:
        """Raises ConfigurationError if one of these keys is missing."""
        file = "" if self._file is None else f", or copy the key file of their store to {str(self._file)!r}"
        self.sealing.check(key_ids, file)

    def ready_to_seal(self, connection: sqlite3.Connection) -> Sealing:
        """The keys, after one was generated if there was none. Blocks.

        Raises:
            UnavailableError: documents were sealed with a key that is lost.
        """
        if not self.sealing.has_key:
            if document_rows.any_sealed(connection):
                raise UnavailableError(
                    "the key that sealed the stored documents is missing, so no new one is generated; put back the file"
                    f" {'' if self._file is None else self._file.name!r}, or set 'server.master_keys'",
                    code="sealing_key_missing",
                )
            self.sealing.add(make_key(self._file))
        return self.sealing


class SqliteDocuments:
    """A DocumentStore of the store's own file."""

    def __init__(
        self, access: StoreAccess, clock: Clock, keys: MasterKeys, on_secrets: Callable[[Iterable[Secret]], None]
    ) -> None:
        self._access = access
        self._clock = clock
        self._keys = keys
        self._on_secrets = on_secrets

    async def put(
        self,
        kind: DocumentKind,
        document_id: str,
        owner: str,
        body: JsonObject,
        if_version: int | None = None,
        *,
        public: bool = False,
        thread_id: str | None = None,
        most: int | None = None,
    ) -> int:
        """As DocumentStore says."""
        check_id(kind, document_id, public=public)
        kept, secrets = taken_apart(body, kind.sealed)
        self._learn(secrets)
        source = dumped_body(kept)

        def work(connection: sqlite3.Connection) -> int:
            sealed = None
            if secrets:
                sealing = self._keys.ready_to_seal(connection)
                sealed = orjson.dumps(sealing.seal(kind.name, document_id, secrets))
            new = NewDocument(document_id, owner, public, thread_id, source, sealed, searched_in(kind, source))
            return document_rows.put(connection, kind, new, if_version, self._clock.now(), most)

        try:
            return await self._access.write(work, long=True)
        except MappingError as error:
            raise InvalidRequestError(str(error), code="invalid_document") from error

    async def get(self, kind: DocumentKind, document_id: str, owner: str, *, unsealed: bool = False) -> Document | None:
        """As DocumentStore says."""
        found = await self._access.read(lambda connection: document_rows.read(connection, kind, document_id, owner))
        if found is None:
            return None
        document, sealed = found
        if unsealed and sealed:
            secrets = self._keys.sealing.open(kind.name, document_id, sealed)
            self._learn(secrets)
            put_together(document.body, secrets)
        return document

    async def owner_of(self, kind: DocumentKind, document_id: str) -> str | None:
        """As DocumentStore says."""
        return await self._access.read(lambda connection: document_rows.read_owner(connection, kind, document_id))

    async def owners(self, kind: DocumentKind) -> list[str]:
        """As DocumentStore says."""
        return await self._access.read(lambda connection: document_rows.read_owners(connection, kind))

    async def page(self, kind: DocumentKind, owner: str, *, after: str = "", limit: int) -> list[Document]:
        """As DocumentStore says."""
        return await self._access.read(lambda connection: document_rows.page(connection, kind, owner, after, limit))

    async def delete(self, kind: DocumentKind, document_id: str, owner: str, if_version: int | None = None) -> bool:
        """As DocumentStore says."""
        deleted = await self._access.write(
            lambda connection: document_rows.delete(connection, kind, document_id, owner, if_version), makes_room=True
        )
        if deleted:
            self._access.erase()
        return deleted

    async def search(self, kind: DocumentKind, body: JsonObject, owner: str) -> JsonObject:
        """As DocumentStore says."""
        try:
            now = self._clock.now()
            while True:
                with suppress(StaleIndexError):
                    return await self._access.search(
                        owner, lambda connection, rest: document_rows.search(connection, kind, body, owner, now, rest)
                    )
                await self._access.write(lambda connection: document_rows.reindex(connection, kind, owner), long=True)
        except (QueryError, MappingError) as error:
            raise InvalidRequestError(str(error), code="invalid_search", status=400) from error
        except ToolError as error:
            raise InvalidRequestError(error.message, code="search_too_large", status=400) from error

    def _learn(self, secrets: Mapping[str, JsonValue]) -> None:
        if secrets:
            self._on_secrets(map(Secret, texts_in(secrets.values())))
