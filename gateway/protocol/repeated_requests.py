"""Finds the run that an earlier copy of a request began, where the request names its run.

Below: the environment. Above: the rooms of protocols whose clients repeat requests by a key or by the run's id. The
run's record keeps a digest of the body that began it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import orjson

from gateway.access.callers import Caller
from gateway.errors import ConflictError
from gateway.messages import JsonObject
from gateway.protocol.environment import ProtocolEnvironment
from gateway.runs.viewer import Viewer
from gateway.store import RunRecord

DIGEST: Final = "digest"
"""The member of AgentInput.request that has it."""


@dataclass(frozen=True, slots=True)
class RepeatWords:
    """A protocol's words where a request cannot be repeated. `reused`: what names the run came with another body
    before; `cancelled`: the run was cancelled before it began.
    """

    reused: str
    reused_code: str
    cancelled: str


def body_digest(body: JsonObject) -> str:
    """What identifies a body, however its members are ordered."""
    return hashlib.blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


async def begun_before(
    environment: ProtocolEnvironment, caller: Caller, run_id: str, digest: str, words: RepeatWords
) -> tuple[Viewer, RunRecord] | None:
    """The run, from its first event on; None: there is none.

    Raises:
        ConflictError: it was another request, or did not begin.
        NotFoundError: its log was deleted.
    """
    if (record := await environment.known_run(caller, run_id)) is None:
        return None
    if (record.request or {}).get(DIGEST) != digest:
        raise ConflictError(words.reused, code=words.reused_code)
    if (viewer := await environment.attach(caller, run_id, needs_log=True)) is None:
        raise ConflictError(words.cancelled, code="cancelled")
    return viewer, record
