"""A request's tools and `tool_choice`, in the spelling of Chat Completions and of Responses."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.tools import ReadTools, flat_name, read_tool_choice, read_tools
from gateway.options.generation import OneTool, ToolChoice

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolSpec("weather", "Tells the weather.", SCHEMA)
CLOCK = ToolSpec("clock", "", {})


def read(body: JsonObject, *, refuses_others: bool = False) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    fields = OpenAIFields(body)
    found = read_tool_choice(fields, read_tools(fields, namespaces=True, refuses_others=refuses_others))
    fields.check()
    return found


def read_all(*tools: JsonValue, namespaces: bool = True, taken: tuple[str, ...] = ()) -> ReadTools:
    fields = OpenAIFields({"tools": [*tools]})
    found = read_tools(fields, namespaces=namespaces, taken=taken)
    fields.check()
    return found


def namespace(name: str, *tools: JsonValue) -> JsonObject:
    return {"type": "namespace", "name": name, "description": f"Tools of {name}.", "tools": [*tools]}


def wrong_fields(body: JsonObject, *, refuses_others: bool = False) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        read(body, refuses_others=refuses_others)
    assert caught.value.status == 400
    return [problem.pointer for problem in caught.value.problems]


def inside(name: str, **members: JsonValue) -> JsonObject:
    return {"type": "function", "function": {"name": name, **members}}


def flat(name: str, **members: JsonValue) -> JsonObject:
    return {"type": "function", "name": name, **members}


BOTH: list[JsonValue] = [inside("weather", description="Tells the weather.", parameters=SCHEMA), flat("clock")]


def test_a_function_may_stand_inside_or_flat() -> None:
    written: dict[str, JsonValue] = {"description": "Tells the weather.", "parameters": SCHEMA, "strict": True}

    assert read({"tools": [inside("weather", **written)]}) == read({"tools": [flat("weather", **written)]})
    assert read({"tools": BOTH}) == ((WEATHER, CLOCK), "auto")


@pytest.mark.parametrize("body", [{}, {"tools": None}, {"tools": [], "tool_choice": None}])
def test_no_tools_are_none(body: JsonObject) -> None:
    assert read(body) == ((), "auto")


def test_absent_parts_of_a_function_may_be_null_and_a_later_tool_of_the_name_counts() -> None:
    tools: list[JsonValue] = [inside("clock", description="old"), inside("clock", description=None, parameters=None)]

    assert read({"tools": tools}) == ((CLOCK,), "auto")


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (inside("clock"), OneTool("clock")),
        (flat("clock"), OneTool("clock")),
    ],
)
def test_tool_choice_is_read_in_both_spellings(said: JsonValue, choice: ToolChoice) -> None:
    assert read({"tools": BOTH, "tool_choice": said}) == ((WEATHER, CLOCK), choice)


@pytest.mark.parametrize(
    "said",
    [
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [inside("clock")]}},
        {"type": "allowed_tools", "mode": "required", "tools": [flat("clock")]},
    ],
)
def test_the_model_gets_the_allowed_tools_alone(said: JsonObject) -> None:
    assert read({"tools": BOTH, "tool_choice": said}) == ((CLOCK,), "required")


def test_other_kinds_of_tools_are_refused_by_name() -> None:
    tools: list[JsonValue] = [{"type": "web_search"}, {"type": "custom", "custom": {"name": "a"}}, {}, 7]

    wrong = ["/tools/0/type", "/tools/1/type", "/tools/2/type", "/tools/3"]
    assert wrong_fields({"tools": tools}, refuses_others=True) == wrong
    assert wrong_fields({"tools": tools}) == wrong[2:]
    with pytest.raises(InvalidRequestError, match=r"tools\[0\]\.type is 'web_search'; it must be 'function'"):
        read({"tools": tools}, refuses_others=True)


def test_other_kinds_of_tools_are_left_out_and_named() -> None:
    tools: list[JsonValue] = [
        {"type": "web_search", "external_web_access": False},
        flat("clock"),
        {"type": "custom", "name": "apply_patch"},
        {"type": "custom", "custom": {"name": "edit"}},
        namespace("a", {"type": "custom", "name": "b"}),
    ]
    found = read_all(*tools)

    assert found.specs == (CLOCK,)
    assert found.left_out == ("web_search", "custom apply_patch", "custom edit", "custom b")
    assert read_all(namespace("a", flat("b")), namespaces=False).left_out == ("namespace a",)


@pytest.mark.parametrize(
    ("choice", "wrong"),
    [
        ("required", "/tool_choice"),
        ({"type": "web_search"}, "/tool_choice/type"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}, "/tool_choice/tools"),
    ],
)
def test_what_is_left_out_cannot_be_forced(choice: JsonValue, wrong: str) -> None:
    assert wrong_fields({"tools": [{"type": "web_search"}], "tool_choice": choice}) == [wrong]


def test_of_the_allowed_tools_the_functions_are_left() -> None:
    allowed: JsonObject = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}, flat("clock")]}

    assert read({"tools": [{"type": "web_search"}, *BOTH], "tool_choice": allowed}) == ((CLOCK,), "auto")


def test_a_function_of_a_namespace_has_both_names() -> None:
    found = read_all(namespace("mcp__skies", flat("clock"), inside("weather")), flat("clock"))

    assert [spec.name for spec in found.specs] == ["mcp__skies__clock", "mcp__skies__weather", "clock"]
    assert found.namespaced["mcp__skies__clock"] == ("mcp__skies", "clock")
    assert found.left_out == ()


def test_names_in_namespaces_are_short_enough_and_unlike_all_others() -> None:
    long = [namespace("n" * 40, flat("f" * 40 + end)) for end in "ab"]
    alike = [namespace("a", flat("b__c")), namespace("a__b", flat("c")), flat("x__y"), namespace("x", flat("y"))]
    found = read_all(*long, *alike, namespace("x", flat("z")), taken=("x__z",))
    names = [spec.name for spec in found.specs]

    assert len(set(names)) == len(names) == 7
    assert max(map(len, names)) == 64
    assert "x__z" not in names
    assert found.namespaced["a__b__c"] == ("a", "b__c")
    assert sorted(found.namespaced.values()) == sorted(
        [("n" * 40, "f" * 40 + "a"), ("n" * 40, "f" * 40 + "b"), ("a", "b__c"), ("a__b", "c"), ("x", "y"), ("x", "z")]
    )
    assert flat_name("n" * 40, "f" * 40 + "a") == names[0]


def test_functions_of_namespaces_are_chosen_by_both_names() -> None:
    tools: list[JsonValue] = [namespace("skies", flat("clock"), flat("weather")), flat("weather")]
    one: JsonObject = {"type": "function", "name": "clock", "namespace": "skies"}
    whole: JsonObject = {"type": "namespace", "name": "skies"}

    assert read({"tools": tools, "tool_choice": one})[1] == OneTool("skies__clock")
    for allowed, names in ((one, ["skies__clock"]), (whole, ["skies__clock", "skies__weather"])):
        choice: JsonObject = {"type": "allowed_tools", "mode": "auto", "tools": [allowed]}
        assert [spec.name for spec in read({"tools": tools, "tool_choice": choice})[0]] == names


def test_a_wrong_namespace_is_named() -> None:
    tools: list[JsonValue] = [namespace(""), namespace("a", {}), {"type": "namespace", "name": "a", "tools": {}}]

    assert wrong_fields({"tools": tools}) == ["/tools/0/name", "/tools/1/tools/0/type", "/tools/2/tools"]


def test_a_wrong_function_is_named() -> None:
    tools: list[JsonValue] = [
        {"type": "function"},
        {"type": "function", "function": "clock"},
        inside(""),
        inside("clock", parameters=[]),
        inside("clock", description=7),
    ]

    assert wrong_fields({"tools": tools}) == [
        "/tools/0/name",
        "/tools/1/function",
        "/tools/1/name",
        "/tools/2/function/name",
        "/tools/3/function/parameters",
        "/tools/4/function/description",
    ]
    assert wrong_fields({"tools": {}}) == ["/tools"]


def test_a_wrong_choice_is_named() -> None:
    unknown: JsonObject = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [inside("radio")]}}

    assert wrong_fields({"tools": BOTH, "tool_choice": "any"}) == ["/tool_choice"]
    assert wrong_fields({"tools": BOTH, "tool_choice": {"type": "mcp"}}) == ["/tool_choice/type"]
    assert wrong_fields({"tools": BOTH, "tool_choice": {"type": "function"}}) == ["/tool_choice/name"]
    assert wrong_fields({"tools": BOTH, "tool_choice": unknown}) == ["/tool_choice/allowed_tools/tools/0/function/name"]


def test_an_mcp_tool_names_the_agents_own_tools_where_it_names_no_server() -> None:
    """openai-agents sends one, so that it takes questions about the gateway's tools."""
    own: JsonObject = {"type": "mcp", "server_label": "gateway", "require_approval": "always"}

    assert read({"tools": [own, flat("clock")]}) == ((CLOCK,), "auto")
    for reached in ({"server_url": "https://example.org/mcp"}, {"connector_id": "connector_dropbox"}):
        assert wrong_fields({"tools": [{**own, **reached}]}) == ["/tools/0/type"]
    assert wrong_fields({"tools": [{"type": "mcp"}]}) == ["/tools/0/type"]
