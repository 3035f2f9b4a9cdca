"""The part of the table of requests about memories: conversations, and memory containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.ml_commons.oracle_ask import Ask, P

_MEMORY: Final = f"{P}/memory"
_CONTAINERS: Final = f"{P}/memory_containers"


def memory_requests() -> Iterator[Ask]:
    """All of them."""
    yield from _conversations()
    yield from _interactions()
    yield from _containers()
    yield from _sessions()
    yield from _working_memory()
    yield from _other_kinds()
    yield from _ends()


def _conversations() -> Iterator[Ask]:
    yield Ask("memory: create", "POST", _MEMORY, {"name": "Oracle"}, {"talk": "memory_id"})
    yield Ask("memory: create without a name", "POST", _MEMORY, {}, {"nameless": "memory_id"})
    whole = {"name": "Whole", "application_type": "os_chat", "additional_info": {"a": "b"}}
    yield Ask("memory: create with all fields", "POST", _MEMORY, whole, {"whole": "memory_id"})
    yield Ask("memory: get", "GET", f"{_MEMORY}/{{talk}}")
    yield Ask("memory: get with all fields", "GET", f"{_MEMORY}/{{whole}}")
    yield Ask("memory: get without a name", "GET", f"{_MEMORY}/{{nameless}}")
    yield Ask("memory: get an unknown one", "GET", f"{_MEMORY}/nope")
    yield Ask("memory: change", "PUT", f"{_MEMORY}/{{talk}}", {"name": "Renamed"})
    yield Ask("memory: get the changed one", "GET", f"{_MEMORY}/{{talk}}")
    yield Ask("memory: change an unknown one", "PUT", f"{_MEMORY}/nope", {"name": "n"})
    yield Ask("memory: list two", "GET", f"{_MEMORY}?max_results=2")
    yield Ask("memory: list none", "GET", f"{_MEMORY}?max_results=0")
    yield Ask("memory: list from a negative place", "GET", f"{_MEMORY}?next_token=-1")
    yield Ask("memory: search by name", "POST", f"{_MEMORY}/_search", {"query": {"match": {"name": "Whole"}}})
    yield Ask("memory: what an agent made", "GET", f"{_MEMORY}/{{memory}}")
    yield Ask("memory: what an agent said", "GET", f"{_MEMORY}/{{memory}}/messages")


def _interactions() -> Iterator[Ask]:
    messages = f"{_MEMORY}/{{talk}}/messages"
    first = {"input": "How are you?", "response": "Well.", "origin": "MyLLM", "additional_info": {"k": "v"}}
    yield Ask("messages: create", "POST", messages, first, {"message": "message_id"})
    yield Ask("messages: create another", "POST", messages, {"input": "And now?", "response": "Still."})
    trace = {"input": "a tool", "response": "its result", "parent_message_id": "{message}", "trace_number": 1}
    yield Ask("messages: create a trace", "POST", messages, trace)
    yield Ask("messages: create nothing", "POST", messages, {})
    yield Ask("messages: create in an unknown memory", "POST", f"{_MEMORY}/nope/messages", first)
    yield Ask("messages: list", "GET", messages)
    yield Ask("messages: list one", "GET", f"{messages}?max_results=1")
    yield Ask("messages: list of an unknown memory", "GET", f"{_MEMORY}/nope/messages")
    yield Ask("messages: get", "GET", f"{_MEMORY}/message/{{message}}")
    yield Ask("messages: get an unknown one", "GET", f"{_MEMORY}/message/nope")
    changed = {"additional_info": {"feedback": "good"}, "input": "left out"}
    yield Ask("messages: change", "PUT", f"{_MEMORY}/message/{{message}}", changed)
    yield Ask("messages: get the changed one", "GET", f"{_MEMORY}/message/{{message}}")
    yield Ask("messages: traces", "GET", f"{_MEMORY}/message/{{message}}/traces")
    found = {"query": {"match": {"input": "how"}}}
    yield Ask("messages: search", "POST", f"{_MEMORY}/{{talk}}/_search", found)


def _containers() -> Iterator[Ask]:
    create = f"{_CONTAINERS}/_create"

    def refused(name: str, body: Any) -> Ask:
        return Ask(f"containers: {name}", "POST", create, body)

    def configured(**configuration: Any) -> dict[str, Any]:
        return {"name": "n", "configuration": configuration}

    yield Ask("containers: create", "POST", create, {"name": "Box", "description": "d"}, {"box": "memory_container_id"})
    yield Ask("containers: get", "GET", f"{_CONTAINERS}/{{box}}")
    yield Ask("containers: get an unknown one", "GET", f"{_CONTAINERS}/nope")
    yield refused("no name", {"description": "d"})
    strategy = {"type": "SEMANTIC", "namespace": ["user_id"]}
    yield refused("strategies without models", configured(strategies=[strategy]))
    yield refused("a strategy of an unknown type", configured(strategies=[{**strategy, "type": "bogus"}]))
    yield refused("a strategy without a namespace", configured(strategies=[{"type": "SEMANTIC"}]))
    yield refused("an embedding model without a type", configured(embedding_model_id="m"))
    yield refused("a type without an embedding model", configured(embedding_model_type="TEXT_EMBEDDING"))
    yield refused("too large an infer size", configured(max_infer_size=11))
    yield Ask("containers: change", "PUT", f"{_CONTAINERS}/{{box}}", {"name": "Other box"})
    yield Ask("containers: get the changed one", "GET", f"{_CONTAINERS}/{{box}}")
    policy = {"sessions": {"retention_days": 30, "max_count": 100}, "history": {"max_count": 50}}
    kept = {"configuration": {"retention_policy": policy}}
    yield Ask("containers: change the retention", "PUT", f"{_CONTAINERS}/{{box}}", kept)
    yield Ask("containers: get with a retention", "GET", f"{_CONTAINERS}/{{box}}")
    yield Ask("containers: search", "POST", f"{_CONTAINERS}/_search", {"query": {"match": {"name": "box"}}})


def _sessions() -> Iterator[Ask]:
    sessions = f"{_CONTAINERS}/{{box}}/memories/sessions"
    body = {
        "summary": "About red",
        "metadata": {"k": "v"},
        "namespace": {"user_id": "u"},
        "additional_info": {"a": "b"},
    }
    yield Ask("sessions: create", "POST", sessions, body, {"kept_session": "session_id"})
    yield Ask("sessions: create with an id", "POST", sessions, {"session_id": "mine", "summary": "s"})
    yield Ask("sessions: create with a taken id", "POST", sessions, {"session_id": "mine", "summary": "s"})
    yield Ask("sessions: create in an unknown container", "POST", f"{_CONTAINERS}/nope/memories/sessions", body)
    yield Ask("sessions: get", "GET", f"{sessions}/{{kept_session}}")
    yield Ask("sessions: get an unknown one", "GET", f"{sessions}/nope")
    yield Ask(
        "sessions: change", "PUT", f"{sessions}/{{kept_session}}", {"summary": "About blue", "namespace": {"x": "y"}}
    )
    yield Ask("sessions: get the changed one", "GET", f"{sessions}/{{kept_session}}")
    yield Ask("sessions: pin", "PUT", f"{sessions}/{{kept_session}}", {"pinned": True})
    yield Ask("sessions: get the pinned one", "GET", f"{sessions}/{{kept_session}}")
    yield Ask("sessions: change an unknown one", "PUT", f"{sessions}/nope", {"summary": "s"})
    found = {"query": {"match": {"summary": "blue"}}}
    yield Ask("sessions: search", "POST", f"{sessions}/_search", found)


def _working_memory() -> Iterator[Ask]:
    memories = f"{_CONTAINERS}/{{box}}/memories"
    working = f"{memories}/working"
    said = [{"role": "user", "content": [{"type": "text", "text": "I like red"}]}]
    own = {"user_id": "u", "session_id": "mine"}
    talk = {
        "messages": said,
        "payload_type": "conversational",
        "namespace": own,
        "metadata": {"k": "v"},
        "infer": False,
    }
    yield Ask("working: add messages", "POST", memories, talk, {"spoken": "working_memory_id"})
    data = {
        "structured_data": {"a": {"b": 1}},
        "payload_type": "data",
        "namespace": {"user_id": "u"},
        "tags": {"t": "1"},
    }
    yield Ask("working: add data", "POST", memories, data, {"data": "working_memory_id"})
    yield Ask("working: add nothing", "POST", memories, {})
    inferred = {"payload_type": "conversational", "namespace": own, "infer": True}
    yield Ask("working: infer without messages", "POST", memories, inferred)
    yield Ask("working: infer without a model", "POST", memories, {**talk, "infer": True})
    yield Ask(
        "working: a message without a role", "POST", memories, {**talk, "messages": [{"content": said[0]["content"]}]}
    )
    yield Ask("working: an unknown payload type", "POST", memories, {**talk, "payload_type": "bogus"})
    yield Ask("working: get messages", "GET", f"{working}/{{spoken}}")
    yield Ask("working: get data", "GET", f"{working}/{{data}}")
    yield Ask("working: get an unknown one", "GET", f"{working}/nope")
    yield Ask("working: change data", "PUT", f"{working}/{{data}}", {"tags": {"t": "2"}, "namespace": {"x": "y"}})
    yield Ask("working: get the changed data", "GET", f"{working}/{{data}}")
    yield Ask("working: search by a tag", "POST", f"{working}/_search", {"query": {"term": {"tags.t": "2"}}})
    of_session = {"query": {"term": {"namespace.session_id": "mine"}}}
    yield Ask("working: search by a session", "POST", f"{working}/_search", of_session)
    ours = {"query": {"term": {"namespace.session_id": "{session}"}}, "sort": [{"message_id": "asc"}]}
    of_agents = f"{_CONTAINERS}/{{of_agents}}/memories/working/_search"
    yield Ask("working: what an agent said", "POST", of_agents, ours)
    yield Ask("working: delete data", "DELETE", f"{working}/{{data}}")
    yield Ask("working: get the deleted data", "GET", f"{working}/{{data}}")


def _other_kinds() -> Iterator[Ask]:
    memories = f"{_CONTAINERS}/{{box}}/memories"
    everything: dict[str, Any] = {"query": {"match_all": {}}}
    yield Ask("long-term: search", "POST", f"{memories}/long-term/_search", everything)
    yield Ask("long-term: get an unknown one", "GET", f"{memories}/long-term/nope")
    yield Ask("history: search", "POST", f"{memories}/history/_search", everything)
    yield Ask("history: change", "PUT", f"{memories}/history/nope", {"after": {}})
    yield Ask("kinds: an unknown one", "GET", f"{memories}/bogus/nope")


def _ends() -> Iterator[Ask]:
    working = f"{_CONTAINERS}/{{box}}/memories/working"
    by_session = {"query": {"term": {"namespace.session_id": "mine"}}}
    yield Ask("working: delete by query", "POST", f"{working}/_delete_by_query", by_session)
    yield Ask("sessions: delete", "DELETE", f"{_CONTAINERS}/{{box}}/memories/sessions/{{kept_session}}")
    yield Ask("sessions: delete again", "DELETE", f"{_CONTAINERS}/{{box}}/memories/sessions/{{kept_session}}")
    yield Ask("containers: delete", "DELETE", f"{_CONTAINERS}/{{box}}")
    yield Ask("containers: delete again", "DELETE", f"{_CONTAINERS}/{{box}}")
    yield Ask("memory: delete", "DELETE", f"{_MEMORY}/{{talk}}")
    yield Ask("memory: get the deleted one", "GET", f"{_MEMORY}/{{talk}}")
    yield Ask("messages: list of the deleted memory", "GET", f"{_MEMORY}/{{talk}}/messages")
    yield Ask("memory: delete again", "DELETE", f"{_MEMORY}/{{talk}}")
