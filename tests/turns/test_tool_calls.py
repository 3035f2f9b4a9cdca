"""Arguments: parsing them strictly and checking them against a schema that anybody may have written."""

from __future__ import annotations

import json

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.turns.tool_calls import (
    ArgumentChecks,
    CompiledSchemas,
    approval_schema,
    are_same_arguments,
    argument_problem,
    canonical_call,
    parse_arguments,
    schema_problem,
)


def spec(schema: JsonObject) -> ToolSpec:
    return ToolSpec("tool", "", schema)


@pytest.mark.parametrize("text", ["", " \n", "null", "{}"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_arguments(text) == {}


@pytest.mark.parametrize("text", ["{", "{}x", "[]", "7", '"{}"', "true", "{'a': 1}", '{"a": Infinity}', '{"a": 01}'])
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        parse_arguments(text)


def test_what_is_wrong_is_said_for_the_first_few_problems_only() -> None:
    schema: JsonObject = {"type": "object", "additionalProperties": {"type": "number"}}
    problem = argument_problem(spec(schema), {f"p{n}": "x" * 10_000 for n in range(50)})
    assert problem is not None
    assert len(problem) < 3_000


def test_a_person_is_told_what_is_wrong_and_a_model_what_to_do_about_it_too() -> None:
    tool = spec({"type": "object", "properties": {"a": {"type": "number"}}})
    wrong: JsonObject = {"a": "x"}
    what = f'The arguments do not fit the schema of {tool.name!r}: a: "x" is not of type "number".'
    assert argument_problem(tool, wrong) == what
    with pytest.raises(ToolError) as told:
        ArgumentChecks().parse(tool, json.dumps(wrong))
    assert told.value.message == f"{what} Correct them and call again."


def test_arguments_that_fit_have_no_problem() -> None:
    assert argument_problem(spec({"type": "object", "required": ["a"]}), {"a": 1}) is None


def test_formats_and_unknown_keywords_are_no_reason_to_refuse() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "format": "date", "x-y": 1}}}
    assert argument_problem(spec(schema), {"a": "tomorrow"}) is None


def test_references_within_the_schema_work() -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}
    assert argument_problem(spec(schema), {"a": 1}) is None
    assert argument_problem(spec(schema), {"a": "x"}) is not None


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/schema", "file:///etc/passwd", "other.json", "#/$defs/none"])
def test_references_to_anywhere_else_are_not_followed_and_break_nothing(
    reference: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert argument_problem(spec({"properties": {"a": {"$ref": reference}}}), {"a": 1}) is None
    assert "schema cannot be used" in caplog.text


def test_deep_schemas_and_deep_arguments_are_survived() -> None:
    deep: JsonObject = {}
    for _ in range(3_000):
        deep = {"properties": {"a": deep}}
    assert argument_problem(spec(deep), {"a": {}}) is None
    text = '{"a":' * 900 + "1" + "}" * 900
    recursive: JsonObject = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    with pytest.raises(ToolError):
        ArgumentChecks().parse(spec(recursive), text)


def test_each_schema_is_compiled_once(caplog: pytest.LogCaptureFixture) -> None:
    checks = ArgumentChecks()
    for _ in range(3):
        checks.parse(spec({"type": "nonsense"}), "{}")
    assert len(caplog.records) == 1


def test_the_schema_of_an_approval_keeps_its_references_whole() -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "number"}},
    }
    answer = ToolSpec("answer", "", approval_schema(spec(schema)))
    assert argument_problem(answer, {"approved": True, "arguments": {"a": 1}}) is None
    assert argument_problem(answer, {"approved": True, "arguments": {"a": "x"}}) is not None
    assert argument_problem(answer, {"reason": "no"}) is not None


def test_the_same_call_has_the_same_bytes() -> None:
    assert canonical_call("a", {"x": 1, "y": {"b": 1, "a": 2}}) == canonical_call("a", {"y": {"a": 2, "b": 1}, "x": 1})
    assert canonical_call("a", {}) != canonical_call("b", {})


@pytest.mark.parametrize(
    ("text", "arguments", "same"),
    [
        ('{"a": 1, "b": [true]}', {"b": [True], "a": 1}, True),
        ('{"a": 1.0}', {"a": 1}, True),
        ("", {}, True),
        ('{"a": 1}', {"a": True}, False),
        ('{"a": 1}', {"a": 1, "b": None}, False),
        ('{"a": ', {}, False),
        ('{"a": 1}', {"a": 10**400}, False),
        ('{"$ref": "#/nowhere"}', {"$ref": "#/nowhere"}, True),
    ],
)
def test_arguments_are_the_same_as_json(text: str, arguments: JsonObject, same: bool) -> None:
    assert are_same_arguments(text, arguments) is same


def test_a_compiled_schema_serves_all_runs_and_the_one_used_longest_ago_is_forgotten() -> None:
    compiled = CompiledSchemas(most_places=60)
    first = compiled.get(wide(20))
    assert compiled.get(ToolSpec("other", "", wide(20).input_schema)) is first
    compiled.get(wide(21))
    assert compiled.get(wide(20)) is first
    compiled.get(wide(22))
    assert compiled.get(wide(20)) is first
    with pytest.raises(ToolError, match='1 is not of type "string"'):
        ArgumentChecks(compiled).parse(wide(21), '{"p0": 1}')
    compiled.get(wide(50))
    assert compiled.get(wide(20)) is not first, "what costs much takes the room of many"


def wide(count: int) -> ToolSpec:
    return spec({"properties": {f"p{n}": {"type": "string"} for n in range(count)}})


def doubled(keyword: str, levels: int, leaf: JsonObject, **top: JsonValue) -> ToolSpec:
    definitions: JsonObject = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return spec({"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": leaf}, **top})


STOPPING = [
    doubled("anyOf", 24, {"type": "string"}),
    doubled("oneOf", 24, {"type": "object"}),
    doubled("allOf", 24, {"type": "object"}),
    doubled("anyOf", 14, {"properties": {"a": {}}}, unevaluatedProperties=False),
    spec({"properties": {f"p{n}": {"pattern": f"\\pL{{110}}{n}"} for n in range(100)}}),
    spec({"patternProperties": {f"\\pL{{110}}{n}": {} for n in range(100)}}),
]


@pytest.mark.parametrize("tool", STOPPING)
def test_a_schema_that_would_stop_the_process_is_not_compiled_and_said_once(
    tool: ToolSpec, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = CompiledSchemas()
    for _ in range(3):
        checks = ArgumentChecks(compiled)
        assert checks.parse(tool, '{"a": 1}') == {"a": 1}
        with pytest.raises(ToolError, match="must be a JSON object"):
            checks.parse(tool, "[]")
    assert [record.message for record in caplog.records] == ["a tool's schema cannot be used"]
    assert schema_problem(tool.input_schema) is not None


def test_a_recursive_schema_is_checked_on_any_level_and_described_while_that_is_short() -> None:
    inner: JsonObject = {"$ref": "#/$defs/any"}
    variants: list[JsonValue] = [
        {"type": "object", "properties": {"type": {"const": f"t{n}"}, "in": inner}, "required": ["in"]}
        for n in range(8)
    ]
    variants.append({"type": "object", "maxProperties": 0})
    tool = spec({"$ref": "#/$defs/any", "$defs": {"any": {"anyOf": variants}}})
    deep: JsonObject = {}
    for _ in range(60):
        deep = {"type": "t7", "in": deep}
    assert argument_problem(tool, deep) is None
    wrong: JsonObject = {"type": "t7", "in": 1}
    for _ in range(60):
        wrong = {"type": "t7", "in": wrong}
    assert argument_problem(tool, wrong) == "The arguments do not fit the schema of 'tool'."
    assert '{"type":1} is not valid' in str(argument_problem(tool, {"type": 1}))


def test_arguments_that_are_too_large_to_be_checked_are_refused_or_run_unchecked() -> None:
    tool = spec({"anyOf": [{"additionalProperties": {"type": "number"}} for _ in range(300)]})
    large = json.dumps({f"p{n}": n for n in range(5_000)})
    with pytest.raises(ToolError, match="too large"):
        ArgumentChecks().parse(tool, large)
    assert len(ArgumentChecks().parse(tool, large, checked=False)) == 5_000


@pytest.mark.parametrize("levels", [199, 200, 201, 300, 1_000, 5_000])
def test_arguments_are_refused_beyond_two_hundred_levels(levels: int) -> None:
    text = '{"a":' * levels + "1" + "}" * levels
    tool = spec({"type": "object"})
    if levels <= 200:
        assert canonical_call("tool", ArgumentChecks().parse(tool, text))
        return
    with pytest.raises(ToolError, match=r"nested more than 200 deep|not valid JSON"):
        ArgumentChecks().parse(tool, text)


def test_brackets_in_texts_are_no_levels() -> None:
    assert parse_arguments(json.dumps({"a": "[{" * 500})) == {"a": "[{" * 500}
