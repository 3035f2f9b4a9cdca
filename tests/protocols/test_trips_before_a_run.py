"""How often a request waits for the store, one time after the other, before its run begins.

A method of the store is a trip if it looks into the file; what the store has in memory is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gateway.store import Store
from tests.a2a_scene import said
from tests.openai_scene import AGENTS
from tests.running_gateway import GatewayClient, local_gateway, parts_with_store

OF_THE_PROCESS: Final = {"due_deletions", "idle_visitor_threads", "expired_threads", "remove_logs"}
MOST: Final = {"AG-UI": 2, "Chat": 3, "Responses": 3, "A2A": 3, "Agent API": 3, "ml-commons": 3}


@dataclass
class Trips:
    """The trips of a store until a run begins. `store` is the store around the real one."""

    names: list[str] = field(default_factory=list)
    begun: bool = False
    _looks: int = 0

    def around(self, store: Store) -> Store:
        inner = cast(Any, store)
        for owner, name in ((inner, "_look"), (inner, "_read"), (inner._access, "look"), (inner._access, "read")):
            setattr(owner, name, partial(self._looked, getattr(owner, name)))
        return cast(Store, _CountedStore(store, self))

    def start(self) -> None:
        self.names.clear()
        self.begun = False

    def _looked(self, look: Callable[..., Any], *given: Any) -> Any:
        self._looks += 1
        return look(*given)

    async def of(self, name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        before, self.begun = self._looks, self.begun or name == "begin_run"
        found = await method(*given, **named)
        if self._looks > before and not self.begun and name not in OF_THE_PROCESS:
            self.names.append(name)
        return found


class _CountedStore:
    def __init__(self, store: Store, trips: Trips) -> None:
        self._store = store
        self._trips = trips

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._store, name)
        return partial(self._trips.of, name, member) if iscoroutinefunction(member) else member


@dataclass(frozen=True, slots=True)
class Conversation:
    """The requests of one conversation, each made of the answers before it. `key`: the last request has one."""

    protocol: str
    case: str
    path: str
    bodies: Sequence[Callable[[Sequence[str]], Any]]
    key: str = ""


def found(pattern: str, answers: Sequence[str]) -> str:
    match = re.search(pattern, answers[-1])
    assert match is not None, answers[-1]
    return match[1]


def ag_ui(number: int, _: Sequence[str]) -> Any:
    message = {"id": f"m{number}", "role": "user", "content": "hi"}
    return {"threadId": "t", "runId": f"r{number}", "messages": [message], "tools": [], "context": []}


def chat(messages: int, _: Sequence[str]) -> Any:
    roles = ["user", "assistant"] * messages
    texts = [{"role": role, "content": f"words {place}"} for place, role in enumerate(roles[: 2 * messages - 1])]
    return {"model": "words", "messages": texts}


def response(answers: Sequence[str]) -> Any:
    previous = {"previous_response_id": found(r'"id": ?"(resp_\w+)"', answers)} if answers else {}
    return {"model": "words", "input": "hi", **previous}


def behind_the_first(answers: Sequence[str]) -> Any:
    """A request behind the first response: its thread has gone on since."""
    return response(answers[:1])


def a2a(answers: Sequence[str]) -> Any:
    context = {"contextId": found(r'"contextId": ?"([^"]+)"', answers)} if answers else {}
    sent = said("hi", message_id="", configuration=None, **context)
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent}


def agent_api(_: Sequence[str], **named: Any) -> Any:
    content = [{"type": "text", "text": "hi"}]
    return {"input": [{"type": "message", "role": "user", "content": content}], "session_id": "s", **named}


def execution(answers: Sequence[str]) -> Any:
    memory = {"memory_id": found(r'"memory_id", ?"result": ?"([^"]+)"', answers)} if answers else {}
    return {"parameters": {"question": "hi", **memory}}


CHATS: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
A2A: Final = "/agents/words/a2a"
PROCESS: Final = "/agents/words/process"
EXECUTE: Final = "/_plugins/_ml/agents/words/_execute"
CONVERSATIONS: Final = [
    Conversation("AG-UI", "first", "/agents/words/run", [partial(ag_ui, 1)]),
    Conversation("AG-UI", "second", "/agents/words/run", [partial(ag_ui, 1), partial(ag_ui, 2)]),
    Conversation("Chat", "first", CHATS, [partial(chat, 1)]),
    Conversation("Chat", "second", CHATS, [partial(chat, 1), partial(chat, 2)]),
    Conversation("Chat", "with a key", CHATS, [partial(chat, 1)], key="k"),
    Conversation("Responses", "first", RESPONSES, [response]),
    Conversation("Responses", "second", RESPONSES, [response, response]),
    Conversation("Responses", "with a key", RESPONSES, [response, response], key="k"),
    Conversation("Responses", "behind an earlier one", RESPONSES, [response, behind_the_first, behind_the_first]),
    Conversation("A2A", "first", A2A, [a2a]),
    Conversation("A2A", "second", A2A, [a2a, a2a]),
    Conversation("Agent API", "first", PROCESS, [agent_api]),
    Conversation("Agent API", "second", PROCESS, [agent_api, agent_api]),
    Conversation("Agent API", "with an id", PROCESS, [agent_api, partial(agent_api, response_id="response-1")]),
    Conversation("ml-commons", "first", EXECUTE, [execution]),
    Conversation("ml-commons", "second", EXECUTE, [execution, execution]),
]


async def asked(client: GatewayClient, conversation: Conversation, answers: list[str]) -> None:
    number = len(answers)
    is_last = number == len(conversation.bodies) - 1
    headers = {"Idempotency-Key": conversation.key} if conversation.key and is_last else {}
    answer = await client.http.post(conversation.path, json=conversation.bodies[number](answers), headers=headers)
    assert answer.status_code == 200, answer.text
    answers.append(answer.text)


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: f"{each.protocol} {each.case}")
async def test_a_request_waits_for_few_reads(tmp_path: Path, conversation: Conversation, *, restarted: bool) -> None:
    trips, answers, last = Trips(), list[str](), len(conversation.bodies) - 1
    if restarted:
        async with local_gateway(tmp_path, AGENTS) as gateway:
            while len(answers) < last:
                await asked(gateway.client, conversation, answers)
    async with local_gateway(tmp_path, AGENTS, parts=parts_with_store(trips.around)) as gateway:
        while len(answers) < last:
            await asked(gateway.client, conversation, answers)
        trips.start()
        await asked(gateway.client, conversation, answers)
    assert 1 <= len(trips.names) <= MOST[conversation.protocol], trips.names
