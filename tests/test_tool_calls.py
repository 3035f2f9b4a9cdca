"""Arguments: parsing them strictly and checking them against a schema that anybody may have written."""

from __future__ import annotations

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject, ToolSpec
from gateway.tool_calls import (
    ArgumentChecks,
    CompiledSchemas,
    approval_schema,
    are_same_arguments,
    argument_problem,
    canonical_call,
    parse_arguments,
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
        ArgumentChecks().check(tool, wrong)
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
        checks.check(spec({"type": "nonsense"}), {})
    assert len(caplog.records) == 1


def test_the_schema_of_an_approval_keeps_its_references_whole() -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "number"}},
    }
    answer = ToolSpec("answer", "", approval_schema(spec(schema)))
    assert argument_problem(answer, {"approved": True, "editedArgs": {"a": 1}}) is None
    assert argument_problem(answer, {"approved": True, "editedArgs": {"a": "x"}}) is not None
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
    compiled = CompiledSchemas(limit=2)
    first = compiled.validator(spec({"type": "object"}))
    assert compiled.validator(ToolSpec("other", "", {"type": "object"})) is first
    compiled.validator(spec({"required": ["a"]}))
    assert compiled.validator(spec({"type": "object"})) is first
    compiled.validator(spec({"required": ["b"]}))
    assert compiled.validator(spec({"type": "object"})) is first
    with pytest.raises(ToolError, match='"a" is a required'):
        ArgumentChecks(compiled).parse(spec({"required": ["a"]}), "{}")
    large = spec({"type": "object", "description": "x" * 20_000})
    assert compiled.validator(large) is not compiled.validator(large), "what is large is not held on to"
