"""The part of the table of requests about what is rarer: changes, interactions again, other streams, wrong bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.ml_commons.oracle_ask import Ask, P

_AGENTS: Final = f"{P}/agents"
_MEMORY: Final = f"{P}/memory"
_CONTAINERS: Final = f"{P}/memory_containers"
_MODEL: Final = {
    "model_id": "gpt-4o",
    "model_provider": "openai/v1/chat/completions",
    "endpoint": "{models}/v1",
    "credential": {"openai_api_key": "sk-of-the-oracle"},
}


def further_requests() -> Iterator[Ask]:
    """All of them. They want what the requests before them registered."""
    yield from _registrations()
    yield from _changes()
    yield from _executions()
    yield from _streams()
    yield from _memories()
    yield from _messages()
    yield from _containers()
    yield from _sessions()
    yield from _working_memory()
    yield from _ends()
    yield from _tasks()
    yield from _tools()
    yield from _settings()


def _registrations() -> Iterator[Ask]:
    def register(name: str, keep: str = "", /, **more: Any) -> Ask:
        body = {"name": "Further", "type": "conversational", "model": _MODEL, **more}
        kept = {keep: "agent_id"} if keep else {}
        return Ask(f"register: {name}", "POST", f"{_AGENTS}/_register", body, kept)

    yield register("an unknown member", "further", nosuch=1, memory={"type": "conversation_index"})
    yield register("no tools", "toolless", tools=[], memory={"type": "conversation_index"})
    tool = {"type": "ListIndexTool", "name": "Lister", "description": "Lists.", "parameters": {"indices": ["a"]}}
    shown = {
        **tool,
        "include_output_in_agent_response": True,
        "attributes": {"strict": True},
        "config": {"local": True},
    }
    yield register("a whole tool", "whole_tool", tools=[shown], app_type="chat", description="d")
    yield Ask("register: get a whole tool", "GET", f"{_AGENTS}/{{whole_tool}}")
    yield register("a name of another type", name=1)
    yield register("a description of another type", description={"a": 1})
    yield register("tools of another type", tools="x")
    yield register("tools of null", tools=None)
    yield register("parameters of another type", parameters="x")
    yield register("memory of another type", memory="x")
    yield register("a model of another type", model="x")
    yield register("an unknown member of model", model={**_MODEL, "nosuch": 1})
    yield register("no credential", model={k: v for k, v in _MODEL.items() if k != "credential"})
    container = {"type": "agentic_memory", "memory_container_id": "nope"}
    yield register("an unknown container", type="conversational_v2", memory=container)
    yield register("no container", type="conversational_v2", memory={"type": "agentic_memory"})
    yield register("a flow", type="flow", tools=[{"type": "ListIndexTool"}])
    yield register("a plan", type="plan_execute_and_reflect")
    yield register("an old model", model=None, llm={"model_id": "nope", "parameters": {}})
    yield register("a taken id", agent_id="oracle-agent")
    yield register("a wrong id", agent_id="_x")
    yield register("a connector of MCP", parameters={"mcp_connectors": [{"mcp_connector_id": "nope"}]})
    yield register("a provider's interface", parameters={"_llm_interface": "bogus"})
    yield register("an unknown context management", context_management_name="nope")


def _changes() -> Iterator[Ask]:
    agent = f"{_AGENTS}/{{further}}"

    def change(name: str, body: Any) -> Iterator[Ask]:
        yield Ask(f"changes: {name}", "PUT", agent, body)
        yield Ask(f"changes: get after {name}", "GET", agent)

    yield from change("parameters", {"parameters": {"a": "1", "b": 2}})
    yield from change("one parameter", {"parameters": {"b": 3}})
    yield from change("tools", {"tools": [{"type": "IndexMappingTool", "name": "m"}]})
    yield from change("nothing", {})
    yield from change("null", {"description": None, "app_type": None})
    yield from change("an unknown member", {"nosuch": 1})
    yield from change("memory", {"memory": {"type": "conversation_index", "window_size": 5}})
    yield from change("app_type", {"app_type": "x", "description": "new"})
    yield Ask("changes: no body", "PUT", agent)
    yield Ask("changes: a long name", "PUT", agent, {"name": "n" * 129})
    yield Ask("changes: a tool without a type", "PUT", agent, {"tools": [{"name": "x"}]})
    yield Ask("changes: memory of an unknown type", "PUT", agent, {"memory": {"type": "bogus"}})


def _executions() -> Iterator[Ask]:
    def execute(name: str, agent: str, body: Any, **keep: str) -> Ask:
        return Ask(f"execute: {name}", "POST", f"{_AGENTS}/{{{agent}}}/_execute", body, keep)

    ids = {"talked": "inference_results/0/output/0/result", "turn": "inference_results/0/output/1/result"}
    asked = {"parameters": {"question": "first"}}
    yield execute("a first turn", "toolless", asked, **ids)
    yield Ask(
        "memory: what a first turn left", "GET", f"{_MEMORY}/{{talked}}/messages", None,
        {"turn": "messages/0/message_id"},
    )  # fmt: skip
    on = {"memory_id": "{talked}"}
    again = {"parameters": {**on, "regenerate_interaction_id": "{turn}"}}
    yield execute("again", "toolless", again)
    yield execute("an unknown interaction again", "toolless", {"parameters": {**on, "regenerate_interaction_id": "x"}})
    yield execute("again without a memory", "toolless", {"parameters": {"regenerate_interaction_id": "x"}})
    yield execute("input again", "toolless", {"input": "x", "parameters": {**on, "regenerate_interaction_id": "x"}})
    parent = {"question": "more", **on, "parent_interaction_id": "nope"}
    yield execute("an unknown parent", "toolless", {"parameters": parent})
    yield execute("no tools", "toolless", {"input": "describe"})
    yield execute("a selected tool", "chat", {"input": "describe", "parameters": {"selected_tools": ["ListIndexTool"]}})
    called = 'call ListIndexTool {"indices": ["nosuch"]}'
    yield execute("verbose with a tool", "chat", {"input": called, "parameters": {"verbose": True}})
    yield execute("usage with a tool", "chat", {"input": called, "parameters": {"include_token_usage": True}})
    yield execute("wrong arguments", "chat", {"input": 'call ListIndexTool {"indices": 5}'})
    container = {"memory_container_id": "nope"}
    yield execute("another container", "two", {"input": "hello", "parameters": container})
    yield execute("a container without memory", "chat", {"input": "hello", "parameters": container})
    yield execute(
        "an unknown context management", "chat", {"input": "a", "parameters": {"context_management_name": "x"}}
    )
    yield execute("parameters of another type", "chat", {"parameters": "x"})
    yield execute("a question of another type", "chat", {"parameters": {"question": 5}})
    yield execute("an empty question", "chat", {"parameters": {"question": ""}})
    yield execute("other parameters", "chat", {"parameters": {"x": "y"}})
    yield execute("an item of text", "two", {"input": ["x"]})
    yield execute("input of an object", "two", {"input": {"a": 1}})
    yield execute("input of null", "two", {"input": None})
    tool = {"role": "tool", "content": [{"type": "text", "text": "5"}]}
    yield execute("a result without a call", "two", {"input": [tool]})
    yield execute("a result of an unknown call", "two", {"input": [{**tool, "toolCallId": "nope"}]})
    assistant = {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    yield execute("the last word is the model's", "two", {"input": [assistant]})
    system = {"role": "system", "content": [{"type": "text", "text": "Be kind."}]}
    user = {"role": "user", "content": [{"type": "text", "text": "describe"}]}
    yield execute("a system message", "two", {"input": [system, user]})
    yield execute("no content", "two", {"input": [{"role": "user", "content": []}]})
    yield execute("an empty role", "two", {"input": [{**user, "role": ""}]})
    document = {"type": "document", "source": {"type": "base64", "format": "pdf", "data": "JVBERi0="}}
    yield execute("a document to OpenAI", "two", {"input": [{"type": "text", "text": "look"}, document]})
    yield execute("a document to Bedrock", "bedrock_two", {"input": [{"type": "text", "text": "look"}, document]})
    linked = {"type": "image", "source": {"type": "url", "format": "png", "data": "https://127.0.0.1:1/a.png"}}
    yield execute("an image's URL to OpenAI", "two", {"input": [{"type": "text", "text": "look"}, linked]})
    yield execute("an image's URL to Bedrock", "bedrock_two", {"input": [{"type": "text", "text": "look"}, linked]})
    yield execute("the provider is broken", "chat", {"input": "fail 503"})
    yield execute("the provider refuses the key", "chat", {"input": "fail 401"})
    yield execute("the provider does not know the model", "two", {"input": "fail 404"})
    yield execute("an agent of AG-UI", "ui", {"input": "hello"})
    yield execute("an agent of AG-UI with a question", "ui", {"parameters": {"question": "hello"}})


def _streams() -> Iterator[Ask]:
    def stream(name: str, agent: str, body: Any) -> Ask:
        return Ask(f"stream: {name}", "POST", f"{_AGENTS}/{{{agent}}}/_execute/stream", body)

    yield stream("on a memory", "toolless", {"parameters": {"question": "hello", "memory_id": "{talked}"}})
    yield stream("token usage", "chat", {"parameters": {"question": "hello", "include_token_usage": True}})
    called = 'call ListIndexTool {"indices": ["nosuch"]}'
    yield stream("a tool", "chat", {"parameters": {"question": called}})
    yield stream("verbose", "chat", {"parameters": {"question": called, "verbose": True}})
    yield stream("the provider refuses", "chat", {"parameters": {"question": "fail 400"}})
    yield stream("nothing", "chat", {})
    yield stream("no body", "chat", None)
    yield Ask("stream: not JSON", "POST", f"{_AGENTS}/{{chat}}/_execute/stream", raw='{"parameters": ')
    yield Ask("stream: a wrong method", "GET", f"{_AGENTS}/{{chat}}/_execute/stream")

    def ag_ui(name: str, text: str, run: str, **more: Any) -> Ask:
        messages = [{"id": f"m-{run}", "role": "user", "content": text}]
        usual = {"threadId": "oracle-more", "runId": f"oracle-{run}", "state": {}, "messages": messages, "tools": []}
        return stream(f"AG-UI: {name}", "ui", {**usual, "context": [], "forwardedProps": {}, **more})

    yield ag_ui("a backend tool", called, "a")
    yield ag_ui("the next turn", "describe", "b")
    yield ag_ui("the provider refuses", "fail 400", "c")
    yield ag_ui("messages of another type", "", "d", messages="x")
    yield ag_ui("context", "describe", "e", context=[{"description": "page", "value": "home"}])
    picture = {"type": "binary", "mimeType": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "text", "text": "look"}, picture]
    yield ag_ui("a picture", "", "f", messages=[{"id": "m-f", "role": "user", "content": content}])


def _memories() -> Iterator[Ask]:
    yield Ask("memory: create another", "POST", _MEMORY, {"name": "Further"}, {"other": "memory_id"})
    yield Ask("memory: no body", "POST", _MEMORY)
    yield Ask("memory: a name of another type", "POST", _MEMORY, {"name": 5})
    yield Ask("memory: an unknown member", "POST", _MEMORY, {"name": "a", "nosuch": 1})
    yield Ask("memory: information of another type", "POST", _MEMORY, {"name": "a", "additional_info": "x"})
    yield Ask("memory: deep information", "POST", _MEMORY, {"name": "a", "additional_info": {"a": {"b": 1}}})
    memory = f"{_MEMORY}/{{other}}"
    yield Ask("memory: change information", "PUT", memory, {"additional_info": {"a": "b"}})
    yield Ask("memory: change more", "PUT", memory, {"additional_info": {"c": "d"}, "application_type": "x"})
    yield Ask("memory: get the one changed twice", "GET", memory)
    yield Ask("memory: change nothing", "PUT", memory, {})
    yield Ask("memory: change without a body", "PUT", memory)
    yield Ask("memory: list one", "GET", f"{_MEMORY}?max_results=1")
    yield Ask("memory: list the next one", "GET", f"{_MEMORY}?max_results=1&next_token=1")
    yield Ask("memory: list behind the end", "GET", f"{_MEMORY}?max_results=1&next_token=1000")
    yield Ask("memory: list a text", "GET", f"{_MEMORY}?max_results=x")
    yield Ask("memory: list from a text", "GET", f"{_MEMORY}?next_token=x")


def _messages() -> Iterator[Ask]:
    memory = f"{_MEMORY}/{{other}}"
    messages = f"{memory}/messages"
    yield Ask("messages: no body", "POST", messages)
    info = {"additional_info": {"a": "b"}}
    yield Ask("messages: only information", "POST", messages, info)
    full = {"input": "in", "prompt_template": "t", "response": "out", "origin": "o"}
    yield Ask("messages: create with all fields", "POST", messages, full, {"full": "message_id"})
    yield Ask("messages: list all", "GET", messages)
    yield Ask("messages: list the next one", "GET", f"{messages}?max_results=1&next_token=1")
    yield Ask("messages: list none", "GET", f"{messages}?max_results=0")
    yield Ask("messages: list from a negative place", "GET", f"{messages}?next_token=-1")
    by_time = {"query": {"match": {"input": "in"}}, "sort": [{"create_time": "asc"}]}
    yield Ask("messages: search by GET", "GET", f"{memory}/_search?filter_path=hits.hits._source", by_time)
    message = f"{_MEMORY}/message/{{full}}"
    yield Ask("messages: change the response", "PUT", message, {"response": "other"})
    yield Ask("messages: get the one of another response", "GET", message)
    yield Ask("messages: change an unknown one", "PUT", f"{_MEMORY}/message/nope", {"response": "x"})
    yield Ask("messages: change nothing", "PUT", message, {})
    yield Ask("messages: change without a body", "PUT", message)
    yield Ask("messages: a trace without a number", "POST", messages, {"input": "a", "parent_message_id": "{full}"})
    yield Ask("messages: traces without a number", "GET", f"{message}/traces?max_results=1")
    yield Ask("messages: traces of an unknown one", "GET", f"{_MEMORY}/message/nope/traces")
    yield Ask("messages: delete", "DELETE", message)
    yield Ask("messages: search an unknown memory", "POST", f"{_MEMORY}/nope/_search", {})
    yield Ask("messages: input of another type", "POST", messages, {"input": 5})
    yield Ask("messages: information of another type", "POST", messages, {"input": "a", "additional_info": "x"})
    yield Ask("messages: an unknown member", "POST", messages, {"input": "a", "nosuch": 1})
    yield Ask("messages: a trace of nothing", "POST", messages, {"input": "a", "parent_message_id": "nope"})
    yield Ask("messages: a number without a parent", "POST", messages, {"input": "a", "trace_number": 1})


def _containers() -> Iterator[Ask]:
    def create(name: str, body: Any, **keep: str) -> Ask:
        return Ask(f"containers: {name}", "POST", f"{_CONTAINERS}/_create", body, keep)

    yield create("create another", {"name": "Further"}, crate="memory_container_id")
    whole = {"index_prefix": "further", "use_system_index": True, "disable_history": True, "disable_session": False}
    configuration = {**whole, "parameters": {"llm_result_path": "$.x"}, "max_infer_size": 3}
    yield create(
        "all members",
        {"name": "All", "configuration": configuration, "backend_roles": ["r"]},
        full="memory_container_id",
    )
    yield Ask("containers: get all members", "GET", f"{_CONTAINERS}/{{full}}")
    yield create("no body", None)
    yield create("a name of another type", {"name": 5})
    yield create("an unknown member", {"name": "n", "nosuch": 1})
    yield create("a configuration of another type", {"name": "n", "configuration": "x"})
    yield create("an unknown model", {"name": "n", "configuration": {"llm_id": "nope"}})
    yield create("a blank role", {"name": "n", "backend_roles": [""]})
    yield create("a wrong prefix", {"name": "n", "configuration": {"index_prefix": "A B"}})
    yield create("an empty name", {"name": ""})
    crate = f"{_CONTAINERS}/{{crate}}"
    yield Ask("containers: change nothing", "PUT", crate, {})
    yield Ask("containers: change without a body", "PUT", crate)
    yield Ask("containers: change an unknown one", "PUT", f"{_CONTAINERS}/nope", {"name": "n"})
    yield Ask("containers: change an unknown member", "PUT", crate, {"nosuch": 1})


def _sessions() -> Iterator[Ask]:
    memories = f"{_CONTAINERS}/{{crate}}/memories"
    yield Ask("sessions: an empty body", "POST", f"{memories}/sessions", {})
    yield Ask("sessions: delete an unknown one", "DELETE", f"{memories}/sessions/nope")
    everything: Any = {"query": {"match_all": {}}}
    yield Ask("sessions: search by GET", "GET", f"{memories}/sessions/_search", everything)
    yield Ask("sessions: search without a body", "POST", f"{memories}/sessions/_search")
    yield Ask(
        "sessions: search an unknown container",
        "POST",
        f"{_CONTAINERS}/nope/memories/sessions/_search",
        everything,
    )
    yield Ask("sessions: search an unknown kind", "POST", f"{memories}/bogus/_search", everything)
    yield Ask("sessions: delete by query", "POST", f"{memories}/sessions/_delete_by_query", everything)
    yield Ask("sessions: delete without a query", "POST", f"{memories}/sessions/_delete_by_query", {})
    yield Ask("sessions: no body", "POST", f"{memories}/sessions")
    shared = {"session_id": "shared", "summary": "s"}
    yield Ask("sessions: create with another id", "POST", f"{memories}/sessions", shared)
    there = f"{_CONTAINERS}/{{full}}/memories/sessions"
    yield Ask("sessions: an id of another container", "POST", there, shared)


def _working_memory() -> Iterator[Ask]:
    memories = f"{_CONTAINERS}/{{crate}}/memories"
    said = {
        "payload_type": "conversational",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    }
    yield Ask("working: no namespace", "POST", memories, said, {"free": "working_memory_id"})
    yield Ask("working: get it", "GET", f"{memories}/working/{{free}}")
    yield Ask("working: no kind", "POST", memories, {"messages": said["messages"], "namespace": {"user_id": "u"}})
    yield Ask("working: an unknown container", "POST", f"{_CONTAINERS}/nope/memories", said)
    yield Ask("working: content as text", "POST", memories, {**said, "messages": [{"role": "user", "content": "a"}]})
    blocks = [{"role": "user", "content": [{"text": "a"}]}]
    yield Ask("working: content without a type", "POST", memories, {**said, "messages": blocks})
    yield Ask("working: no messages", "POST", memories, {"payload_type": "conversational", "messages": []})
    yield Ask("working: pinned", "POST", memories, {**said, "pinned": True})
    yield Ask("working: a namespace of a number", "POST", memories, {**said, "namespace": {"user_id": 5}})
    yield Ask("working: a tag of a number", "POST", memories, {**said, "tags": {"t": 5}})
    yield Ask("working: a tag of an object", "POST", memories, {**said, "tags": {"t": {"a": 1}}})
    yield Ask("working: an unknown member", "POST", memories, {**said, "nosuch": 1})
    data = {"payload_type": "data", "namespace": {"user_id": "u"}}
    bits = {**data, "binary_data": "AAEC", "structured_data_blob": {"a": {"b": 1}}, "checkpoint_id": "c"}
    yield Ask("working: bytes", "POST", memories, bits, {"bits": "working_memory_id"})
    yield Ask("working: get bytes", "GET", f"{memories}/working/{{bits}}")
    yield Ask("working: change an unknown one", "PUT", f"{memories}/working/nope", {"tags": {}})
    yield Ask("working: change nothing", "PUT", f"{memories}/working/{{bits}}", {})
    yield Ask("working: change an unknown member", "PUT", f"{memories}/working/{{bits}}", {"nosuch": 1})
    yield Ask("working: delete an unknown one", "DELETE", f"{memories}/working/nope")


def _ends() -> Iterator[Ask]:
    crate = f"{_CONTAINERS}/{{crate}}"
    memories = f"{crate}/memories"
    yield Ask("long-term: search by meaning", "POST", f"{memories}/long-term/_semantic_search", {"query": "a"})
    yield Ask("long-term: write", "POST", f"{memories}/long-term", {"memory": "a"})
    yield Ask("history: write", "POST", f"{memories}/history", {"after": {}})
    yield Ask("history: get an unknown one", "GET", f"{memories}/history/nope")
    yield Ask("containers: delete by body", "DELETE", crate, {"delete_memories": ["working"]})
    yield Ask("containers: delete all", "DELETE", f"{_CONTAINERS}/{{full}}?delete_all_memories=true")
    yield Ask("containers: delete an unknown kind", "DELETE", f"{_CONTAINERS}/{{of_agents}}?delete_memories=bogus")
    yield Ask("containers: retention", "POST", f"{_CONTAINERS}/_retention/_dry_run")


def _tasks() -> Iterator[Ask]:
    execute = f"{_AGENTS}/{{chat}}/_execute"
    yield Ask("tasks: fail later", "POST", f"{execute}?async=true", {"input": "fail 400"}, {"failing": "task_id"})
    yield Ask("tasks: get a failed one", "GET", f"{P}/tasks/{{failing}}", until=("state", "FAILED"))
    yield Ask("tasks: later by the body", "POST", execute, {"input": "a", "isAsync": True}, {"by_body": "task_id"})
    yield Ask("tasks: async=false", "POST", f"{execute}?async=false", {"input": "hello"})
    on = {"input": "later", "parameters": {"memory_id": "{talked}"}}
    remembering = f"{_AGENTS}/{{toolless}}/_execute?async=true"
    yield Ask("tasks: later on a memory", "POST", remembering, on, {"on_memory": "task_id"})
    yield Ask("tasks: done on a memory", "GET", f"{P}/tasks/{{on_memory}}", until=("state", "COMPLETED"))
    two = f"{_AGENTS}/{{two}}/_execute?async=true"
    yield Ask("tasks: of conversational_v2", "POST", two, {"input": "hello"}, {"later_two": "task_id"})
    yield Ask("tasks: done of conversational_v2", "GET", f"{P}/tasks/{{later_two}}", until=("state", "COMPLETED"))
    yield Ask("tasks: cancel a done one", "POST", f"{P}/tasks/{{later_two}}/_cancel")
    yield Ask("tasks: nothing later", "POST", f"{execute}?async=true", {})
    yield Ask("tasks: an unknown agent", "POST", f"{_AGENTS}/nope/_execute?async=true", {"input": "a"})


def _tools() -> Iterator[Ask]:
    run = f"{P}/tools/_execute"
    names = "?filter_path=name,type,version"
    yield Ask("tools: list", "GET", f"{P}/tools{names}")
    yield Ask("tools: no body", "POST", f"{run}/ListIndexTool")
    yield Ask("tools: no parameters", "POST", f"{run}/ListIndexTool", {})
    yield Ask("tools: parameters of another type", "POST", f"{run}/ListIndexTool", {"parameters": "x"})
    wrong = {"parameters": {"index": "nosuch", "query": "Invalid Query"}}
    yield Ask("tools: a wrong query", "POST", f"{run}/SearchIndexTool", wrong)
    yield Ask("tools: an MCP server", "GET", f"{P}/tools/McpStreamableHttpTool")


def _settings() -> Iterator[Ask]:
    settings = "/_cluster/settings"
    one = "plugins.ml_commons.stream_enabled"
    yield Ask("settings: transient", "PUT", settings, {"transient": {one: True}})
    yield Ask("settings: get flat", "GET", f"{settings}?flat_settings=true&filter_path=transient")
    yield Ask("settings: get", "GET", f"{settings}?filter_path=transient")
    nested = {"transient": {"plugins": {"ml_commons": {"stream_enabled": None}}}}
    yield Ask("settings: nested", "PUT", settings, nested)
    yield Ask("settings: nothing", "PUT", settings, {})
    yield Ask("settings: no body", "PUT", settings)
    yield Ask("settings: of another plugin", "PUT", settings, {"persistent": {"action.auto_create_index": True}})
    yield Ask("settings: an unknown member", "PUT", settings, {"nosuch": {}})
    yield Ask("settings: a default", "GET", f"{settings}?include_defaults&flat_settings&filter_path=defaults.{one}")
