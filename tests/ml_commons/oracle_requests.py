"""The table of requests that ml-commons and this gateway are asked, in this order, each on what the ones before left.

`{name}` in a path or a body is what an earlier answer gave (`keep`), `{models}` the address of the models' server.
Names are those of `docs/coming-from-ml-commons.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.ml_commons.oracle_ask import Ask, P
from tests.ml_commons.oracle_further_requests import further_requests
from tests.ml_commons.oracle_http_requests import http_requests
from tests.ml_commons.oracle_memory_requests import memory_requests


def _model(**more: Any) -> dict[str, Any]:
    return {
        "model_id": "gpt-4o",
        "model_provider": "openai/v1/chat/completions",
        "endpoint": "{models}/v1",
        "credential": {"openai_api_key": "sk-of-the-oracle"},
        **more,
    }


def _agent(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "conversational", "model": _model(), "tools": [{"type": "ListIndexTool"}], **more}


def _say(*texts: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def _register(name: str, body: Any, keep: str = "") -> Ask:
    return Ask(f"register: {name}", "POST", f"{P}/agents/_register", body, {keep: "agent_id"} if keep else {})


def _execute(name: str, agent: str, body: Any, **keep: str) -> Ask:
    return Ask(f"execute: {name}", "POST", f"{P}/agents/{{{agent}}}/_execute", body, keep)


def _stream(name: str, agent: str, body: Any) -> Ask:
    return Ask(f"stream: {name}", "POST", f"{P}/agents/{{{agent}}}/_execute/stream", body)


def _registration() -> Iterator[Ask]:
    yield _register("conversational", _agent("Chat", description="It chats.", app_type="os_chat"), "chat")
    yield _register("conversational with memory", _agent("Remembers", memory={"type": "conversation_index"}), "indexed")
    container = {"name": "for agents", "description": "of the oracle", "configuration": {"use_system_index": True}}
    yield Ask(
        "containers: create for agents", "POST", f"{P}/memory_containers/_create", container,
        {"of_agents": "memory_container_id"},
    )  # fmt: skip
    memory = {"type": "agentic_memory", "memory_container_id": "{of_agents}"}
    yield _register("conversational_v2", _agent("Two", type="conversational_v2", memory=memory), "two")
    yield _register("ag_ui", _agent("Ui", type="ag_ui", memory=memory), "ui")
    claude = {"model_id": "us.anthropic.claude-3-7-sonnet-20250219-v1:0", "model_provider": "bedrock/converse"}
    keys = {"access_key": "AKIDEXAMPLE", "secret_key": "of-the-oracle", "region": "us-east-1"}
    options = {"temperature": "0.5", "system_prompt": "Be brief."}
    bedrock = {**claude, "endpoint": "{models}", "credential": keys, "model_parameters": options}
    yield _register("bedrock", _agent("Bedrock", model=bedrock, memory={"type": "conversation_index"}), "bedrock")
    two = _agent("Bedrock two", type="conversational_v2", model=bedrock, memory=memory)
    yield _register("conversational_v2: bedrock", two, "bedrock_two")
    yield _register("type in capitals", _agent("Capitals", type="CONVERSATIONAL_V2", memory=memory))
    yield _register("type with a slash", _agent("Slash", type="conversational/v2", memory=memory))
    yield _register("parameters of any kind", _agent("Any", parameters={"max_iteration": 10, "x": {"a": 1}}), "any")
    yield _register("chosen id", _agent("Chosen", agent_id="oracle-agent"), "chosen")
    yield _register("no body", None)
    yield _register("not JSON's object", ["x"])
    yield _register("no name", {"type": "conversational", "model": _model()})
    yield _register("empty name", _agent(""))
    yield _register("long name", _agent("n" * 129))
    yield _register("no type", {"name": "n", "model": _model()})
    yield _register("unknown type", _agent("n", type="bogus"))
    yield _register("no model", {"name": "n", "type": "conversational"})
    yield _register("unknown provider", _agent("n", model=_model(model_provider="foo/bar")))
    yield _register("no provider", _agent("n", model={"model_id": "m"}))
    yield _register("model without an id", _agent("n", model={"model_provider": "bedrock/converse"}))
    yield _register(
        "two tools of one name", _agent("n", tools=[{"type": "A", "name": "x"}, {"type": "B", "name": "x"}])
    )
    yield _register("tool without a type", _agent("n", tools=[{"name": "x"}]))
    yield _register("tool of an unknown type", _agent("n", tools=[{"type": "NoSuchTool"}]))
    yield _register("memory without a type", _agent("n", memory={"window_size": 1}))
    yield _register("memory of an unknown type", _agent("n", memory={"type": "bogus"}))
    indexed = {"type": "conversation_index"}
    yield _register("conversational_v2 with an index", _agent("n", type="conversational_v2", memory=indexed))
    yield _register("conversational_v2 without memory", _agent("n", type="conversational_v2"))
    both = {"context_management_name": "t", "context_management": {"name": "t"}}
    yield _register("two context managements", _agent("n", **both))
    yield _register("wrong hook", _agent("n", context_management={"hooks": {"INVALID_HOOK": [{"type": "x"}]}}))
    yield _register("text as top_p", _agent("n", model=_model(model_parameters={"top_p": "abc"})))


def _agents() -> Iterator[Ask]:
    agents = f"{P}/agents"
    yield Ask("agents: get", "GET", f"{agents}/{{chat}}")
    yield Ask("agents: get with parameters of any kind", "GET", f"{agents}/{{any}}")
    yield Ask("agents: get an unknown one", "GET", f"{agents}/nope")
    yield Ask("agents: change", "PUT", f"{agents}/{{any}}", {"name": "Other", "description": "changed"})
    yield Ask("agents: get the changed one", "GET", f"{agents}/{{any}}")
    yield Ask("agents: change an unknown one", "PUT", f"{agents}/nope", {"name": "n"})
    yield Ask("agents: change to an empty name", "PUT", f"{agents}/{{any}}", {"name": ""})
    yield Ask("agents: change the type", "PUT", f"{agents}/{{any}}", {"type": "flow"})
    tools = [{"type": "ListIndexTool", "name": "t"}, {"type": "SearchIndexTool", "name": "t"}]
    yield Ask("agents: change to two tools of one name", "PUT", f"{agents}/{{any}}", {"tools": tools})
    named = {"query": {"match": {"name": "Other"}}}
    yield Ask("agents: search by name", "POST", f"{agents}/_search", named)
    yield Ask("agents: search by GET", "GET", f"{agents}/_search", named)
    yield Ask("agents: search nothing there", "POST", f"{agents}/_search", {"query": {"term": {"app_type": "none"}}})
    yield Ask("agents: search with a wrong query", "POST", f"{agents}/_search", {"query": {"nosuch": {}}})
    yield Ask("agents: delete", "DELETE", f"{agents}/{{any}}")
    yield Ask("agents: delete again", "DELETE", f"{agents}/{{any}}")


def _executions() -> Iterator[Ask]:
    yield _execute("text", "chat", {"input": "hello"})
    yield _execute("question", "chat", {"parameters": {"question": "hello"}})
    yield _execute("both", "chat", {"input": "the input", "parameters": {"question": "the question"}})
    yield _execute("with memory", "indexed", {"input": "hello"}, memory="inference_results/0/output/0/result")
    again = {"input": "and again", "parameters": {"memory_id": "{memory}"}}
    yield _execute("again on the memory", "indexed", again)
    yield _execute("an unknown memory", "indexed", {"input": "hello", "parameters": {"memory_id": "invented"}})
    yield _execute("blocks on conversational", "chat", {"input": [{"type": "text", "text": "hello"}]})
    yield _execute("a tool", "chat", {"input": 'call ListIndexTool {"indices": ["nosuch"]}'})
    yield _execute("token usage", "chat", {"input": "hello", "parameters": {"include_token_usage": True}})
    yield _execute("verbose", "chat", {"input": "hello", "parameters": {"verbose": True}})
    limited = {"input": "always ListIndexTool", "parameters": {"max_iteration": 2}}
    yield _execute("the limit of iterations", "chat", limited)
    yield _execute("conversational_v2: text", "two", {"input": "hello"}, session="memory_id")
    on = {"parameters": {"memory_id": "{session}"}}
    yield _execute("conversational_v2: on the memory", "two", {"input": "and again", **on})
    yield _execute(
        "conversational_v2: blocks", "two", {"input": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    )
    png = {"type": "base64", "format": "png", "data": "iVBORw0KGgo="}
    picture = [{"type": "text", "text": "look"}, {"type": "image", "source": png}]
    yield _execute("conversational_v2: an image", "two", {"input": picture})
    talk = [_say("I like red"), _say("I see.", role="assistant"), _say("What do I like?")]
    yield _execute("conversational_v2: messages", "two", {"input": talk})
    yield _execute(
        "conversational_v2: an unknown role", "two", {"input": [_say("hello", role="wizard"), _say("go on")]}
    )
    yield _execute("conversational_v2: question", "two", {"parameters": {"question": "hello"}})
    yield _execute("conversational_v2: a tool", "two", {"input": 'call ListIndexTool {"indices": ["nosuch"]}'})
    yield _execute("conversational_v2: the limit of iterations", "two", limited)
    yield _execute("bedrock", "bedrock", {"input": "hello"})
    yield _execute("bedrock: a tool", "bedrock", {"input": 'call ListIndexTool {"indices": ["nosuch"]}'})
    yield _execute("bedrock: the provider refuses", "bedrock", {"input": "fail 429"})
    yield _execute("conversational_v2: bedrock", "bedrock_two", {"input": talk})
    yield _execute(
        "conversational_v2: bedrock: a tool", "bedrock_two", {"input": 'call ListIndexTool {"indices": ["nosuch"]}'}
    )
    yield _execute("conversational_v2: bedrock: an image", "bedrock_two", {"input": picture})
    yield from _described()
    yield from _refused_executions(png)
    yield _execute("the provider refuses", "chat", {"input": "fail 429"})
    yield _execute("conversational_v2: the provider refuses", "two", {"input": "fail 400"})
    yield Ask(
        "execute: later", "POST", f"{P}/agents/{{chat}}/_execute?async=true", {"input": "hello"}, {"task": "task_id"}
    )


def _described() -> Iterator[Ask]:
    """What the model is sent."""

    def described(**parameters: Any) -> dict[str, Any]:
        return {"input": "describe", "parameters": parameters}

    yield _execute("model: first turn", "chat", described())
    yield _execute("model: system prompt", "chat", described(system_prompt="Be kind."))
    yield _execute("model: no such tool selected", "chat", described(selected_tools='["nope"]'))
    yield _execute("model: later turn", "indexed", described(memory_id="{memory}"))
    yield _execute("model: little history", "indexed", described(memory_id="{memory}", message_history_limit=1))
    yield _execute("model: later turn of conversational_v2", "two", described(memory_id="{session}"))
    yield _execute("model: system prompt of conversational_v2", "two", described(system_prompt="Be kind."))
    yield _execute("model: bedrock", "bedrock", described())
    yield _execute("model: conversational_v2 on bedrock", "bedrock_two", described())


def _refused_executions(png: Mapping[str, str]) -> Iterator[Ask]:
    yield Ask("execute: an unknown agent", "POST", f"{P}/agents/nope/_execute", {"input": "hello"})
    yield _execute("nothing", "chat", {})
    yield _execute("no body", "chat", None)
    yield _execute("a number", "chat", {"input": 42})
    yield _execute("empty text", "chat", {"input": ""})
    yield _execute("blanks", "chat", {"input": "   "})
    yield _execute("no items", "two", {"input": []})
    yield _execute("an item of no kind", "two", {"input": [{"foo": 1}]})
    yield _execute("items of two kinds", "two", {"input": [_say("hello"), {"type": "text", "text": "a"}]})
    yield _execute("an unknown kind of content", "two", {"input": [{"type": "hologram"}]})
    yield _execute("an empty text block", "chat", {"input": [{"type": "text", "text": ""}]})
    yield _execute("an image without a source", "two", {"input": [{"type": "image"}]})
    formless = {name: value for name, value in png.items() if name != "format"}
    yield _execute("an image without a format", "two", {"input": [{"type": "image", "source": formless}]})
    yield _execute(
        "an image of a wrong source", "two", {"input": [{"type": "image", "source": {**png, "type": "bytes"}}]}
    )
    yield _execute("content as text", "two", {"input": [{"role": "user", "content": "hello"}]})
    yield _execute("a call without a function", "two", {"input": [{"role": "assistant", "toolCalls": [{"id": "c"}]}]})
    yield _execute("AG-UI", "ui", _ag_ui("hello"))
    misplaced = {"input": "a", "parameters": {"regenerate_interaction_id": "x", "parent_interaction_id": "y"}}
    yield _execute("two interactions", "indexed", misplaced)


def _ag_ui(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"id": "m1", "role": "user", "content": text}]
    usual = {"threadId": "oracle-thread", "runId": "oracle-run", "state": {}, "messages": messages}
    return {**usual, "tools": [], "context": [], "forwardedProps": {}, **more}


def _streams() -> Iterator[Ask]:
    yield _stream("question", "chat", {"parameters": {"question": "hello"}})
    yield _stream("input alone", "chat", {"input": "hello"})
    yield _stream("conversational_v2", "two", {"input": "hello"})
    yield Ask("stream: an unknown agent", "POST", f"{P}/agents/nope/_execute/stream", {"parameters": {"question": "a"}})
    yield _stream("AG-UI", "ui", _ag_ui("hello"))
    tool = {
        "name": "ask",
        "description": "Ask.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    called = _ag_ui('call ask {"q": "why"}', threadId="oracle-tools", runId="oracle-run-2", tools=[tool])
    yield _stream("AG-UI with a frontend tool", "ui", called)
    yield _stream("AG-UI without messages", "ui", _ag_ui("", runId="oracle-run-3", messages=[]))
    lacking = {
        key: value
        for key, value in _ag_ui("hello", runId="oracle-run-4").items()
        if key not in ("state", "forwardedProps")
    }
    yield _stream("AG-UI without state", "ui", lacking)


def _tools() -> Iterator[Ask]:
    yield Ask("tools: get ListIndexTool", "GET", f"{P}/tools/ListIndexTool")
    yield Ask("tools: get SearchIndexTool", "GET", f"{P}/tools/SearchIndexTool")
    yield Ask("tools: get IndexMappingTool", "GET", f"{P}/tools/IndexMappingTool")
    yield Ask("tools: get an unknown one", "GET", f"{P}/tools/nope")
    yield Ask("tools: run an unknown one", "POST", f"{P}/tools/_execute/nope", {"parameters": {}})
    run = f"{P}/tools/_execute"
    yield Ask("tools: search without parameters", "POST", f"{run}/SearchIndexTool", {"parameters": {"index": "i"}})
    nowhere = {"parameters": {"index": "nosuch", "query": {"query": {"match_all": {}}}}}
    yield Ask("tools: search an unknown index", "POST", f"{run}/SearchIndexTool", nowhere)
    unknown = {"parameters": {"indices": ["nosuch"]}}
    yield Ask("tools: list an unknown index", "POST", f"{run}/ListIndexTool", unknown)
    yield Ask("tools: map an unknown index", "POST", f"{run}/IndexMappingTool", {"parameters": {"index": ["nosuch"]}})


def _tasks() -> Iterator[Ask]:
    yield Ask("tasks: get", "GET", f"{P}/tasks/{{task}}", until=("state", "COMPLETED"))
    by_agent = {"query": {"term": {"task_type": "AGENT_EXECUTION"}}}
    yield Ask("tasks: search those of agents", "POST", f"{P}/tasks/_search", by_agent)
    yield Ask("tasks: delete", "DELETE", f"{P}/tasks/{{task}}")
    yield Ask("tasks: get an unknown one", "GET", f"{P}/tasks/nope")
    yield Ask("tasks: delete an unknown one", "DELETE", f"{P}/tasks/nope")
    yield Ask("tasks: search", "POST", f"{P}/tasks/_search", {"query": {"term": {"task_type": "NONE"}}})
    yield Ask("tasks: cancel an unknown one", "POST", f"{P}/tasks/nope/_cancel")


def _settings() -> Iterator[Ask]:
    def change(name: str, value: Any) -> dict[str, Any]:
        return {"persistent": {f"plugins.ml_commons.{name}": value}}

    settings = "/_cluster/settings"
    yield Ask("settings: switch streams off", "PUT", settings, change("stream_enabled", False))
    yield _stream("switched off", "chat", {"parameters": {"question": "hello"}})
    yield Ask("settings: switch streams on", "PUT", settings, change("stream_enabled", True))
    yield Ask("settings: switch agents off", "PUT", settings, change("agent_framework_enabled", False))
    yield _execute("switched off", "chat", {"input": "hello"})
    yield Ask("settings: switch agents on", "PUT", settings, change("agent_framework_enabled", True))
    yield Ask("settings: switch containers off", "PUT", settings, change("agentic_memory_enabled", False))
    yield Ask("containers: switched off", "GET", f"{P}/memory_containers/{{of_agents}}")
    yield Ask("settings: switch containers on", "PUT", settings, change("agentic_memory_enabled", True))
    yield Ask("settings: an unknown one", "PUT", settings, change("nosuch", True))
    yield Ask("settings: a wrong value", "PUT", settings, change("stream_enabled", "perhaps"))


def _requests() -> Iterator[Ask]:
    yield from _registration()
    yield from _agents()
    yield from _executions()
    yield from _streams()
    yield from memory_requests()
    yield from _tools()
    yield from _tasks()
    yield from _settings()
    yield from http_requests()
    yield from further_requests()


REQUESTS: Final = tuple(_requests())
