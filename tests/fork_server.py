"""A process that has imported the gateway and forks gateways: each starts in a fifth of the time that imports take.

tests/forked_gateways.py runs it as a script and tells it over a socket what to start. It has one thread and no event
loop, so that a fork is safe. When the socket closes, it kills what still runs and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

# what `serve` imports late, so that no gateway has to
_LATE = ("uvloop", "uvicorn.lifespan.off", "gateway.page", "gateway.server.process", "gateway.server.agents_client")
_MOST_BYTES = 1_000_000


def main() -> int:
    from gateway.cli import main as command_line
    from gateway.configuration.known_parts import known_parts

    known_parts()
    for name in _LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a collection in a gateway does not copy all pages
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        words = _serve(requests)
    return 0 if words is None else command_line(words)


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork what is asked for. Returns in each fork, with its command line, and here at the end, with None."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process: its id, who hears its end
    while True:
        for ready in select.select([requests.fileno(), *running], [], [])[0]:
            if ready in running:
                _report_end(ready, *running.pop(ready))
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
            if not message:
                _kill_all(running)
                return None
            report = socket.socket(fileno=descriptors[0])
            if (process_id := os.fork()) == 0:
                report.close()
                for descriptor, (_, other) in running.items():
                    os.close(descriptor)
                    other.close()
                return _become(json.loads(message), descriptors[1:])
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            running[os.pidfd_open(process_id)] = process_id, report
            _send(report, process_id)


def _become(request: Any, streams: list[int]) -> list[str]:
    """Make this process what `python -m gateway` would be in that folder and environment; its command line."""
    for descriptor, number in zip(streams, (1, 2, 0), strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.umask(request["umask"])
    resource.setrlimit(resource.RLIMIT_NOFILE, request["open_files"])
    os.chdir(request["directory"])
    sys.path[0] = os.getcwd()
    words: list[str] = request["words"]
    sys.argv[1:] = words
    return words


def _report_end(descriptor: int, process_id: int, report: socket.socket) -> None:
    os.close(descriptor)
    _, status = os.waitpid(process_id, 0)
    _send(report, os.waitstatus_to_exitcode(status))
    report.close()


def _send(report: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        report.send(str(number).encode())


def _kill_all(running: dict[int, tuple[int, socket.socket]]) -> None:
    for process_id, _ in running.values():
        os.kill(process_id, signal.SIGKILL)
    for process_id, _ in running.values():
        os.waitpid(process_id, 0)


if __name__ == "__main__":
    sys.exit(main())
