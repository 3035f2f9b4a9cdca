"""The ids of this surface: each leads back to its run or thread, so that no index is needed.

    task_<hex>        a task: its first run's id
    task_<hex>_<n>    a later run of the task, from 2
    ctx_<hex>         a context that the server begins: its thread's id
    msg_<run id>_<n>  a message of the agent's on a run's status, from 0

An artifact has the id of the message that it shows. Above: everything of this room.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gateway.messages import new_id

_LATER_RUN: Final = re.compile(r"(task_[0-9a-f]{32})_([0-9]{1,9})")


def new_task_id(key: str = "") -> str:
    """A new task's id, which is its first run's; a key gives the same one every time."""
    return f"task_{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}" if key else new_id("task")


def new_context_id() -> str:
    """The id of a context that a request begins without a name for it."""
    return new_id("ctx")


def later_run_id(task_id: str, number: int) -> str:
    """The id of a task's run, by its number from 2."""
    return f"{task_id}_{number}"


def task_of_run(run_id: str) -> str:
    """The id of the task that a run belongs to by its own id. A run of another protocol is a task of its own."""
    found = _LATER_RUN.fullmatch(run_id)
    return run_id if found is None else found[1]


def status_message_id(run_id: str, number: int) -> str:
    """The id of a message on a run's status."""
    return f"msg_{run_id}_{number}"
