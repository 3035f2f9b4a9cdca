"""A stream of A2A, read as its clients read it: frames, the official types of both versions, and the task it makes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from a2a.compat.v0_3 import types as v03
from a2a.types import SendMessageResponse, StreamResponse
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict
from pydantic import TypeAdapter

from gateway.a2a.dialects import Dialect
from gateway.a2a.renderer import TaskBody, TaskRenderer
from gateway.a2a.tasks import TaskFold
from gateway.events import Event
from gateway.messages import JsonObject
from gateway.store import RunRecord, RunStatus

TASK = "task_00000000000000000000000000000001"
CONTEXT = "ctx_1"
QUESTION: JsonObject = {
    "messageId": "msg-1",
    "taskId": TASK,
    "contextId": CONTEXT,
    "role": "ROLE_USER",
    "parts": [{"text": "Please."}],
}

_RESULTS_V03: TypeAdapter[Any] = TypeAdapter(
    v03.Task | v03.Message | v03.TaskStatusUpdateEvent | v03.TaskArtifactUpdateEvent
)
_AT_WORK = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "submitted", "working"}


def record(run_id: str = TASK, message: JsonObject | None = QUESTION, **more: Any) -> RunRecord:
    """The record of one of the task's runs."""
    request: JsonObject = {"task": TASK, **({} if message is None else {"message": message})}
    values = {"status": RunStatus.RUNNING, "created_at": 1_700_000_000.25, "origin": "a2a", "request": request, **more}
    return RunRecord("alice", run_id, CONTEXT, "agent", **values)


def begun(*, run: RunRecord | None = None, **settings: Any) -> TaskFold:
    """A task whose first run has begun."""
    fold = TaskFold(TASK, CONTEXT, **settings)
    fold.begin(run or record())
    return fold


def rendered(
    events: Sequence[Event],
    dialect: Dialect = Dialect.V1,
    *,
    envelope: bytes | None = b"7",
    cuts: Iterable[int] = (),
    fold: TaskFold | None = None,
    **settings: Any,
) -> tuple[list[bytes], TaskRenderer]:
    """The frames of a run whose events come in batches that begin at 0 and at `cuts`."""
    renderer = TaskRenderer(fold or begun(), dialect, envelope=envelope, **settings)
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    frames: list[bytes] = []
    for begin, end in pairwise(places):
        frames += renderer.render(events[begin:end], begin + 1)
    return frames, renderer


def body_of(events: Sequence[Event], dialect: Dialect = Dialect.V1, **settings: Any) -> JsonObject:
    """The result of SendMessage."""
    body = TaskBody(begun(**settings), dialect)
    assert body.render(events, 1) == ()
    return body.final()


def read(frames: Iterable[bytes], envelope: bytes | None = b"7") -> list[Any]:
    """What the frames say, each of which has nothing but its data, on one line for any reader."""
    found = []
    for frame in frames:
        text = frame.decode()
        assert text.endswith("\n\n")
        (line,) = text[:-2].splitlines()
        assert line.startswith("data: ")
        data = json.loads(line[6:])
        if envelope is not None:
            assert data == {"jsonrpc": "2.0", "id": json.loads(envelope), "result": data["result"]}
            data = data["result"]
        found.append(data)
    return found


def checked(results: Sequence[Any], dialect: Dialect) -> list[Any]:
    """The results of a whole stream, each valid for the official types of its version; the task is first, and the
    stream ends with the first status that is not at work. Gives them in the form of 1.0, without 0.3's own words.
    """
    for result in results:
        if dialect is Dialect.V1:
            validate_proto_required_fields(ParseDict(result, StreamResponse()))
        else:
            _RESULTS_V03.validate_python(result)
    plain = [result if dialect is Dialect.V1 else _unkinded(result) for result in results]
    assert [*plain[0]] == ["task"]
    assert all("statusUpdate" in each or "artifactUpdate" in each for each in plain[1:])
    ends = [each["statusUpdate"]["status"]["state"] not in _AT_WORK for each in plain if "statusUpdate" in each]
    assert ends.count(True) == 1, "one status ends it"
    assert ends[-1]
    assert "statusUpdate" in plain[-1]
    return plain


def _unkinded(result: Any) -> Any:
    member = {"task": "task", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}[result["kind"]]
    if member == "statusUpdate":
        assert result["final"] == (result["status"]["state"] not in _AT_WORK)
    return {member: result}


def check_result(result: JsonObject, dialect: Dialect) -> None:
    """The result of SendMessage is valid for the official types of its version."""
    if dialect is Dialect.V1:
        validate_proto_required_fields(ParseDict(result, SendMessageResponse()))
    else:
        _RESULTS_V03.validate_python(result)


def artifacts_of(results: Iterable[Any]) -> dict[str, list[Any]]:
    """The parts of each artifact as a client has them that follows `append`; texts are joined."""
    artifacts: dict[str, list[Any]] = {}
    closed: set[str] = set()
    for result in results:
        if (update := result.get("artifactUpdate")) is None:
            continue
        artifact_id, parts = update["artifact"]["artifactId"], update["artifact"]["parts"]
        if update.get("append"):
            assert artifact_id in artifacts, "only what is known can be appended to"
            assert artifact_id not in closed, "nothing comes behind a last chunk"
            artifacts[artifact_id] = joined([*artifacts[artifact_id], *parts])
        else:
            artifacts[artifact_id] = joined(parts)
        if update.get("lastChunk"):
            closed.add(artifact_id)
    assert closed == artifacts.keys(), "every artifact has a last chunk"
    return artifacts


def joined(parts: Iterable[Any]) -> list[Any]:
    """The parts with texts that follow each other joined."""
    found: list[Any] = []
    for part in parts:
        if "text" in part and found and "text" in found[-1]:
            found[-1] = {**found[-1], "text": found[-1]["text"] + part["text"]}
        else:
            found.append(part)
    return found


def artifacts_in(task: Any) -> dict[str, list[Any]]:
    """The artifacts of a task, as `artifacts_of` has them."""
    return {each["artifactId"]: joined(each["parts"]) for each in task.get("artifacts", ())}


def states(results: Iterable[Any]) -> list[str]:
    """The states that a stream goes through."""
    found = []
    for result in results:
        task = result.get("task") or result.get("statusUpdate")
        if task is not None:
            found.append(task["status"]["state"].removeprefix("TASK_STATE_").lower())
    return found
