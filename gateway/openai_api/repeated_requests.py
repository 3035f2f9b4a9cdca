"""Finds the run that an earlier request with the same `Idempotency-Key` began.

Below: protocol. Above: chat_start, responses_start. The key gives the run its id, and the run's record keeps a digest
of the body that began it.
"""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from gateway.access.callers import Caller
from gateway.errors import ConflictError, NotFoundError
from gateway.messages import JsonObject
from gateway.protocol import ProtocolEnvironment
from gateway.runs.viewer import Viewer
from gateway.store import RunRecord

KEY_HEADER: Final = "idempotency-key"
DIGEST: Final = "digest"
"""The member of AgentInput.request that has it."""


def body_digest(body: JsonObject) -> str:
    """What identifies a body, however its members are ordered."""
    return hashlib.blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


async def begun_before(
    environment: ProtocolEnvironment, caller: Caller, run_id: str, digest: str
) -> tuple[Viewer, RunRecord] | None:
    """The run, from its first event on; None: there is none.

    Raises:
        ConflictError: it was another request, or did not begin.
        NotFoundError: its log was deleted.
    """
    try:
        record = await environment.run(caller, run_id)
    except NotFoundError:
        return None
    if (record.request or {}).get(DIGEST) != digest:
        raise ConflictError(
            "the Idempotency-Key was sent with another request; use a new one for each", code="idempotency_key_reused"
        )
    if (viewer := await environment.attach(caller, run_id, needs_log=True)) is None:
        raise ConflictError("the request was cancelled before it began; send it with another key", code="cancelled")
    return viewer, record
