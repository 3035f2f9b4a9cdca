"""A2A among the speakers of all protocols: what its clients are told by streams, by bodies, and by tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.a2a.dialects import ACTIVITY
from gateway.a2a.ids import new_task_id
from tests.running_gateway import GatewayClient
from tests.told_runs import Question, Speaker, Told, streamed, tool_schema, whole, words

V1: Final = {"A2A-Version": "1.0"}
WATCHES: Final = {**V1, "A2A-Extensions": ACTIVITY}
_OUTCOMES: Final = {"COMPLETED": "completed", "FAILED": "failed", "CANCELED": "cancelled"}


def message(text: str, message_id: str, tools: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """The parameters of SendMessage."""
    specs = [{"name": name, "description": "Asks.", "parameters": tool_schema()} for name in tools]
    said = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **more}
    return {"message": {**said, "metadata": {"tools": specs}} if specs else said}


def _task_id(question: Question) -> str:
    """The id of the task that a message of this id begins."""
    return new_task_id(f"message {question.id}")


async def _ask_stream(gateway: GatewayClient, question: Question) -> Told:
    params = message(question.text, question.id, question.tools)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    path = f"/agents/{question.agent_id}/a2a"
    answer = await streamed(gateway, path, body, question, _task_id(question), WATCHES)
    return told_by_stream([json.loads(line[6:])["result"] for line in answer.split(b"\n") if line[:6] == b"data: "])


async def _ask_body(gateway: GatewayClient, question: Question) -> Told:
    """Over REST."""
    at, task_id = f"/agents/{question.agent_id}/a2a", _task_id(question)
    body = message(question.text, question.id, question.tools)
    status, answer = await whole(
        gateway, f"{at}/message:send", body, question, task_id, V1, said_at=f"{at}/tasks/{task_id}"
    )
    assert status == 200, answer
    return told_by_task(answer["task"])


async def _ask_later(gateway: GatewayClient, question: Question) -> Told:
    """What GetTask tells once the task has ended."""
    await _ask_body(gateway, question)
    path = f"/agents/{question.agent_id}/a2a/tasks/{_task_id(question)}"
    answer = await gateway.http.get(path, headers=V1)
    assert answer.status_code == 200, answer.text
    return told_by_task(answer.json())


async def _ask_v03(gateway: GatewayClient, question: Question) -> Told:
    """A client of 0.3, which says no version."""
    sent = message(question.text, question.id, question.tools)["message"]
    said = {**sent, "kind": "message", "role": "user", "parts": [{"kind": "text", "text": question.text}]}
    body = {"jsonrpc": "2.0", "id": "a", "method": "message/send", "params": {"message": said}}
    at, task_id = f"/agents/{question.agent_id}/a2a", _task_id(question)
    status, answer = await whole(gateway, at, body, question, task_id, said_at=f"{at}/tasks/{task_id}")
    assert status == 200, answer
    return told_by_task(_in_1_0(answer["result"]))


def _in_1_0(task: Any) -> Any:
    """A task of 0.3 with the words that `told_by_task` reads."""
    status = {**task["status"], "state": task["status"]["state"].upper().replace("-", "_")}
    artifacts = [{**each, "parts": [_part(part) for part in each["parts"]]} for each in task.get("artifacts", ())]
    return {**task, "status": status, "artifacts": artifacts}


def _part(part: Any) -> Any:
    if part["kind"] == "file":
        return {"raw": part["file"]["bytes"], "mediaType": part["file"]["mimeType"]}
    return part


def told_by_stream(results: list[Any]) -> Told:
    """What the results of a stream tell: a client puts the task together, and hears of work on the way."""
    task = {**results[0]["task"], "artifacts": []}
    artifacts: dict[str, Any] = {}
    work: list[Any] = []
    for result in results[1:]:
        if (update := result.get("artifactUpdate")) is not None:
            artifact = update["artifact"]
            if update.get("append"):
                artifacts[artifact["artifactId"]]["parts"] += artifact["parts"]
            else:
                artifacts[artifact["artifactId"]] = artifact
        else:
            task |= {"status": result["statusUpdate"]["status"], "metadata": result["statusUpdate"].get("metadata", {})}
            if task["status"]["state"] == "TASK_STATE_WORKING" and "message" in task["status"]:
                work += [part["data"] for part in task["status"]["message"]["parts"]]
    calls = {each["tool_call_id"]: each for each in work if each["type"] == "tool_call"}
    results_of = [each for each in work if each["type"] == "tool_result"]
    return replace(
        told_by_task({**task, "artifacts": [*artifacts.values()]}),
        reasoning=words(" ".join(each["text"] for each in work if each["type"] == "reasoning")),
        backend=tuple(
            (*_called(calls[each["tool_call_id"]]), "".join(part["text"] for part in each["output"]))
            for each in results_of
        ),
    )


def told_by_task(task: Mapping[str, Any]) -> Told:
    """What a task tells."""
    texts: list[str] = []
    refusals: list[str] = []
    media: list[tuple[str, str]] = []
    for artifact in task.get("artifacts", ()):
        said = refusals if artifact.get("metadata", {}).get("refusal") else texts
        said.append("".join(part["text"] for part in artifact["parts"] if "text" in part))
        media += [(part["mediaType"], part["raw"]) for part in artifact["parts"] if "raw" in part]
    asked = [part["data"] for part in task["status"].get("message", {}).get("parts", ()) if "data" in part]
    questions = tuple(each["message"] for each in asked if "message" in each)
    told = Told(
        words(" ".join(texts)),
        refusal=words(" ".join(refusals)),
        media=tuple(media),
        pending=tuple(_called(each) for each in asked if "message" not in each),
        questions=questions,
    )
    return _end_of_task(told, task)


def _called(data: Mapping[str, Any]) -> tuple[str, str]:
    return data["name"], json.dumps(data["arguments"], separators=(",", ":"))


def _end_of_task(told: Told, task: Mapping[str, Any]) -> Told:
    state = task["status"]["state"].removeprefix("TASK_STATE_")
    if state == "INPUT_REQUIRED":
        return replace(told, outcome="asks" if told.questions else "client_tools")
    if task.get("metadata", {}).get("incompleteReason") == "max_tokens":
        return replace(told, outcome="length")
    error = task["status"]["message"]["metadata"]["code"] if state == "FAILED" else ""
    return replace(told, outcome=_OUTCOMES[state], error=error)


A2A_SPEAKERS: Final = (
    Speaker("A2A", "stream", _ask_stream),
    Speaker("A2A", "body", _ask_body),
    Speaker("A2A", "body of 0.3", _ask_v03),
    Speaker("A2A", "GET", _ask_later),
)
