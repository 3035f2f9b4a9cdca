"""The configuration file as text: values, their places, references."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.configuration.file import (
    ConfigurationText,
    InvalidConfigurationError,
    expand_references,
    parse_configuration,
    read_configuration,
)
from gateway.messages import JsonValue


def value_of(text: str) -> JsonValue:
    configuration = parse_configuration(f"key: {text}", "file")
    assert configuration.problems == []
    return configuration.values["key"]


def problems_of(text: str) -> list[str]:
    try:
        return [str(problem) for problem in parse_configuration(text, "f.yaml").problems]
    except InvalidConfigurationError as error:
        return [str(problem) for problem in error.problems]


def expanded(text: str, directory: Path = Path(), **environ: str) -> ConfigurationText:
    configuration = parse_configuration(f"key: {json.dumps(text)}", "f.yaml")
    expand_references(configuration, environ, directory)
    return configuration


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("", None),
        ("~", None),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("-3", -3),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("&five 5", 5),
        ("&five !!str 5", "5"),
        ("!!int 5", 5),
        (r'"\ud83d\ude00"', "😀"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: JsonValue) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


def test_json_is_read_whatever_its_indentation_and_escapes() -> None:
    values = {"a": {"b": [1, 2.5e3, None, True, "\t\u2028\ud83d\ude00 / \\ \"'"], "\u00e9": ""}, "c": {}}
    for indent in (None, 2, "\t"):
        text = json.dumps(values, indent=indent)
        assert parse_configuration(text, "f.json").values == json.loads(text)
    assert parse_configuration('{"a":1,"b":"x"}', "f.json").values == {"a": 1, "b": "x"}


KEYS = st.text(max_size=40)  # YAML allows keys of up to 1024 characters of source
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.thorough
@given(st.dictionaries(KEYS, JSON, max_size=5))
@settings(deadline=None, max_examples=200)
def test_any_json_is_read_as_json(values: dict[str, JsonValue]) -> None:
    text = parse_configuration(json.dumps(values), "f.json")
    assert text.problems == []
    assert text.values == values


@pytest.mark.thorough
@given(st.text(alphabet="a1:-[]{}&*!|>'\"%@`#,?<~$ \n\t", max_size=40))
@settings(deadline=None, max_examples=500)
def test_any_text_is_read_or_refused_with_its_problems(text: str) -> None:
    with contextlib.suppress(InvalidConfigurationError):
        expand_references(parse_configuration(text, "f.yaml"), {}, Path())


def test_every_value_has_its_place() -> None:
    text = parse_configuration("server:\n  port: 1\nagents:\n  - id: a\n    tools: [x, {type: T}]\n", "f.yaml")
    assert text.place(("server",)) == "f.yaml:1:1"
    assert text.place(("server", "port")) == "f.yaml:2:3"
    assert text.place(("agents", 0)) == "f.yaml:4:5"
    assert text.place(("agents", 0, "tools", 1, "type")) == "f.yaml:5:17"
    assert text.place(("agents", 0, "model", "region")) == "f.yaml:4:5", "what is absent stands where it should be"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb:\n  c: 2\n  c: 3\n", "f.yaml:4:3: b.c: the key stands twice; the first time at f.yaml:3:3"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: this is not YAML"),
        (
            "a: {b: ${env:X:-y}, c: 1}\n",
            'f.yaml:1:9: inside of braces or brackets, put a reference in quotes: "${env:X:-y}"',
        ),
        (
            "a:\n  - [x, ${file:/k}]\n",
            'f.yaml:2:10: inside of braces or brackets, put a reference in quotes: "${file:/k}"',
        ),
        ('{"a": ${env:X}}', 'f.yaml:1:8: inside of braces or brackets, put a reference in quotes: "${env:X}"'),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: this is not YAML"),
        ("- a\n- b\n", "f.yaml:1:1: the file must be a mapping"),
        ("a: .nan\n", "f.yaml:1:4: a: .nan is not a number that JSON knows"),
        ("a: 1e999\n", "f.yaml:1:4: a: 1e999 is not a number that JSON knows"),
        ("a:\n  1: x\n", "f.yaml:2:3: a: a key must be text, and '1' is not; put it in quotes"),
        ("a:\n  [x]: x\n", "f.yaml:2:3: a: a key must be text"),
        ("a: !!python/object:os.system x\n", "f.yaml:1:4: a: the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("a: \x07\n", "f.yaml:1: the character U+0007 may not stand in YAML"),
        ("a: &x [*x]\n", "f.yaml:1:4: too many or too deeply nested values"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, problem: str) -> None:
    problems = problems_of(text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_aliases_of_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many" in problems_of("\n".join(lines))[0]


def test_a_merged_mapping_gives_what_is_not_there() -> None:
    text = parse_configuration("base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nall: {<<: [*b, *o], x: 0}\n", "f")
    assert text.problems == []
    assert text.values["all"] == {"x": 0, "y": 2, "z": 4}


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_bytes(b"\xef\xbb\xbfstore: x\n")
    assert read_configuration(file, {}).values == {"store": "x"}


def test_an_unreadable_file_is_a_problem_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    for name, message in [("none.yaml", "cannot be read: No such file"), ("latin.yaml", "byte 3 is not UTF-8")]:
        with pytest.raises(InvalidConfigurationError, match=message) as caught:
            read_configuration(tmp_path / name, {})
        assert caught.value.message.startswith(str(tmp_path / name))


# --- references -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:A}", "one"),
        ("<${env:A}-${env:A}>", "<one-one>"),
        ("${env:NONE:-two}", "two"),
        ("${env:NONE:-}", ""),
        ("${env:EMPTY:-two}", "two"),
        ("${env:URL:-http://x:1/}", "http://x:1/"),
        ("$${env:A}", "${env:A}"),
        ("$$${env:A}", "$${env:A}"),
        ("$5 and {x}", "$5 and {x}"),
        ("${parameters.question:-none}", "${parameters.question:-none}"),
        ("${env:YAML}", "a: [1\nb: 2"),
    ],
)
def test_references_in_texts_are_replaced(text: str, value: str) -> None:
    configuration = expanded(text, A="one", EMPTY="", YAML="a: [1\nb: 2")
    assert configuration.problems == []
    assert configuration.values == {"key": value}


def test_what_a_reference_brings_is_not_expanded_again() -> None:
    assert expanded("${env:A}", A="${env:B}", B="secret").values == {"key": "${env:B}"}


def test_a_file_is_read_without_its_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    (tmp_path / "two").write_text("a\nb\n\n")
    assert expanded("${file:key}", tmp_path).values == {"key": "s3cret"}
    assert expanded(f"${{file:{tmp_path / 'two'}}}").values == {"key": "a\nb\n"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${env:NONE}", "the environment variable 'NONE' is not set; set it, or write '${env:NONE:-default}'"),
        ("${env:EMPTY}", "the environment variable 'EMPTY' is empty"),
        ("${file:none}", "none' cannot be read: No such file or directory"),
        ("${file:}", "cannot be read"),
        ("${file:a\0b}", "is not a file name"),
        ("${HOME}", "'${HOME}' is not a known reference; write '${env:HOME}', or '$${' for the characters"),
        ("${vault:x}", "'${vault:x}' is not a known reference; write '${env:NAME}' or '${file:/path}'"),
        ("a ${env:A", "a reference '${' has no '}'"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_problem_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    problems = expanded(text, tmp_path, EMPTY="", A="a").problems
    assert len(problems) == 1
    assert problems[0].path == ("key",)
    assert problems[0].place == "f.yaml:1:1"
    assert problem in problems[0].message


def test_keys_are_not_expanded() -> None:
    configuration = parse_configuration('"${env:A}": 1', "f")
    expand_references(configuration, {"A": "one"}, Path())
    assert configuration.values == {"${env:A}": 1}
