"""The file in which everything moves from one store to another: lines of JSON, in UTF-8.

Below: piece_json, transfer. Above: the command line. The first line says what the file is, and has a digest of itself.
Each line after it is a piece of the store (see transfer): its name and its fields. The last line has the number of
pieces of each kind, and a digest of their lines. So a reader finds every byte that is missing or wrong. Two exports of
equal stores differ in their first lines only.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gateway import __version__
from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.records import dump_json, load_json
from gateway.store.piece_json import from_json, to_json
from gateway.store.retention import DueDeletion
from gateway.store.transfer import (
    Moved,
    MovedApproval,
    MovedDocument,
    MovedEvents,
    MovedIndex,
    MovedLate,
    MovedMessage,
    MovedRun,
    MovedSecret,
    MovedStore,
    MovedThread,
    MovedVersion,
)

_FORMAT = "agui-gateway export"
_VERSION = 1
_OWNER_ONLY = 0o600
_LONGEST_HEADER = 1_000_000
_END = b'{"piece":"end",'

_KINDS: dict[str, type[Moved]] = {
    "secret": MovedSecret,
    "due_deletion": DueDeletion,
    "thread": MovedThread,
    "message": MovedMessage,
    "version": MovedVersion,
    "late_documents": MovedLate,
    "approval": MovedApproval,
    "run": MovedRun,
    "events": MovedEvents,
    "index": MovedIndex,
    "document": MovedDocument,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}


class ExportWriter:
    """Writes pieces into a file. `counts` are their numbers, by kind."""

    def __init__(self, file: IO[bytes], now: float) -> None:
        self._file = file
        self._now = now
        self._digest = hashlib.sha256()
        self.counts: Counter[str] = Counter()

    def take(self, piece: Moved) -> None:
        """Write the next piece. The first one is a MovedStore."""
        if isinstance(piece, MovedStore):
            header: JsonObject = {
                "format": _FORMAT,
                "version": _VERSION,
                "gateway": __version__,
                "at": self._now,
                "key_ids": list(piece.key_ids),
                "last_document_version": piece.last_document_version,
            }
            self._file.write(_line({**header, "digest": _header_digest(header)}))
            return
        name = _NAMES[type(piece)]
        line = _line({"piece": name, **to_json(piece)})
        self._file.write(line)
        self._digest.update(line)
        self.counts[name] += 1

    def end(self) -> None:
        """Write the last line."""
        self._file.write(_end_line(self.counts, self._digest.hexdigest()))


@contextmanager
def written_export(path: Path, now: float) -> Generator[ExportWriter]:
    """A new file that only its owner may read; removed again if it does not become whole. `now`: Unix seconds.

    Raises:
        ConfigurationError: there is a file of that name, or it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _OWNER_ONLY)
    except FileExistsError as error:
        raise ConfigurationError(f"{str(path)!r} exists already; name another file") from error
    except OSError as error:
        raise _unusable(path, "written", error) from error
    try:
        with open(descriptor, "wb") as file:
            writer = ExportWriter(file, now)
            yield writer
            writer.end()
            file.flush()
            os.fsync(descriptor)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unusable(path, "written", error) from error
        raise


def read_export(path: Path, counts: Counter[str] | None = None) -> Iterator[Moved]:
    """The pieces in the file, whose numbers, by kind, are added to `counts`. Only who has read to the end knows that
    the file is whole.

    Raises:
        ConfigurationError: the file cannot be read, is no export, is cut off, was changed, or has a newer format.
    """
    digest = hashlib.sha256()
    counts = Counter() if counts is None else counts
    try:
        with path.open("rb") as file:
            yield _header(path, file.readline(_LONGEST_HEADER))
            for number, line in enumerate(file, 2):
                if line.startswith(_END):
                    if line != _end_line(counts, digest.hexdigest()) or file.read(1):
                        raise _damaged(path, number)
                    return
                digest.update(line)
                name, piece = _piece(path, number, line)
                counts[name] += 1
                yield piece
    except OSError as error:
        raise _unusable(path, "read", error) from error
    raise ConfigurationError(f"{str(path)!r} is cut off: its last line is missing; export again")


def _header(path: Path, line: bytes) -> MovedStore:
    header: Any = None
    with suppress(ValueError):
        header = load_json(line)
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ConfigurationError(f"{str(path)!r} is not a file that 'agui-gateway export' wrote")
    version, gateway = header.get("version"), header.get("gateway")
    if version != _VERSION:
        raise ConfigurationError(
            f"{str(path)!r} has the format {version!r}, and this version reads the format {_VERSION}; import it with"
            f" agui-gateway {gateway}, or a newer one"
        )
    digest = header.pop("digest", None)
    if digest != _header_digest(header) or line != _line({**header, "digest": digest}):
        raise _damaged(path, 1)
    return MovedStore(tuple(header["key_ids"]), header["last_document_version"])


def _piece(path: Path, number: int, line: bytes) -> tuple[str, Moved]:
    try:
        data = load_json(line)
        name = data.pop("piece")
        return name, from_json(_KINDS[name], data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, number) from error


def _damaged(path: Path, number: int) -> ConfigurationError:
    return ConfigurationError(f"{str(path)!r} is cut off or was changed: line {number} is wrong; export again")


def _unusable(path: Path, done: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{str(path)!r} cannot be {done}: {error.strerror}")


def _line(value: JsonObject) -> bytes:
    return dump_json(value) + b"\n"


def _end_line(counts: Counter[str], digest: str) -> bytes:
    return _line({"piece": "end", "counts": dict(counts), "digest": digest})


def _header_digest(header: JsonObject) -> str:
    return hashlib.sha256(dump_json(header)).hexdigest()
