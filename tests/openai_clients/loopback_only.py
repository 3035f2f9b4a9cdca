"""Imported before a client: it can speak to this machine alone."""

from __future__ import annotations

import socket
from typing import Any

_connect = socket.socket.connect
_look_up = socket.getaddrinfo
_HERE = {"127.0.0.1", "::1", "localhost"}


def _only_here(self: socket.socket, address: Any) -> None:
    if isinstance(address, tuple) and address[0] not in _HERE:
        raise OSError(f"only this machine is spoken to, not {address[0]}")
    _connect(self, address)


def _look_up_here(host: Any, *more: Any, **named: Any) -> Any:
    if host not in _HERE:
        raise socket.gaierror(f"only this machine is looked up, not {host!r}")
    return _look_up(host, *more, **named)


socket.socket.connect = _only_here  # type: ignore[assignment,method-assign]
socket.getaddrinfo = _look_up_here
