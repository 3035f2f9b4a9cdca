"""The file beside the store with the generated key that seals documents, if `server.master_keys` are not set.

Below: private_files. Above: documents. Without this file, nobody can decrypt the sealed values of a copy of the store.
"""

from __future__ import annotations

import base64
import errno
import os
from contextlib import suppress
from pathlib import Path

from gateway.documents.sealing import KEY_BYTES, parse_key
from gateway.errors import ConfigurationError, StoreError, StoreFullError
from gateway.sqlite.private_files import OWNER_ONLY


def key_file(store: Path) -> Path:
    """The path of the key file: `gateway.key` beside the store `gateway.db`."""
    file = store.with_suffix(".key")
    return file if file != store else store.with_name(f"{store.name}.key")


def read_key(file: Path) -> bytes | None:
    """The key in the file; None if there is no file.

    Raises:
        ConfigurationError: the file cannot be read, or has no key in it.
    """
    try:
        text = file.read_text("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"the key file {str(file)!r} cannot be read ({error.strerror})") from error
    try:
        return parse_key(text)
    except ValueError as error:
        raise ConfigurationError(
            f"the key file {str(file)!r} has no key in it: {error}; put back a copy of it"
        ) from error


def make_key(file: Path | None) -> bytes:
    """A new key, which is on the disk when this returns. Without a file it is only in memory.

    Raises:
        StoreError: the file cannot be written.
    """
    key = os.urandom(KEY_BYTES)
    if file is None:
        return key
    draft = file.with_name(f"{file.name}.new")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY)
        try:
            os.write(descriptor, base64.b64encode(key) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(draft, file)  # atomic, and never replaces another key
        draft.unlink()
        _keep_name(file.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
        raise kind(f"the key file cannot be written ({error.strerror})") from error
    return key


def _keep_name(folder: Path) -> None:
    """Flush the folder to the disk, so that the file keeps its name after a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
