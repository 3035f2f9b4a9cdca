"""Ports that a test hands to a server of its own: they stay the test's also while no server listens there."""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def held_port() -> Generator[int]:
    """A port of 127.0.0.1 where a server may be started, and started again.

    On Linux no other process is given it meanwhile: it is bound, and a server may bind it too as long as nobody
    listens there. Other systems let nobody bind it twice, so there it is only free at the moment.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield port
