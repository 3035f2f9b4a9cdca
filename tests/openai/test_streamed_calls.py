"""Tool calls from fragments, in every way that servers cut them."""

from __future__ import annotations

import json

import pytest

from gateway.openai.streamed_calls import StreamedCalls

KNOWN = {"add", "get", "get_weather", "now"}


def piece(
    name: str | None = None, arguments: object = None, *, index: int | None = None, call_id: str | None = None
) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    entry: dict[str, object] = {"function": {k: v for k, v in function.items() if v is not None}}
    if index is not None:
        entry["index"] = index
    if call_id is not None:
        entry["id"] = call_id
    return entry


def calls(*chunks: list[dict[str, object]]) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call, in the order in which they started."""
    streamed = StreamedCalls(KNOWN)
    steps = [step for chunk in chunks for step in streamed.feed(chunk)] + streamed.finish()
    started = {step.slot: (step.call_id, step.name) for step in steps if step.started}
    assert len(started) == sum(step.started for step in steps), "a call started twice"
    return [(*started[slot], "".join(step.arguments for step in steps if step.slot == slot)) for slot in started]


ADD = '{"a": 1, "b": 2}'
WEATHER = '{"city": "Zürich"}'


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [
                [piece("add", "", index=0, call_id="c1")],
                [piece(None, '{"a": 1,', index=0)],
                [piece(None, ' "b": 2}', index=0)],
                [piece("get_weather", "", index=1, call_id="c2")],
                [piece(None, WEATHER, index=1)],
            ],
            [("c1", "add", ADD), ("c2", "get_weather", WEATHER)],
            id="by the book",
        ),
        pytest.param(
            [
                [piece("add", "", index=0, call_id="c1"), piece("get_weather", "", index=1, call_id="c2")],
                [piece(None, '{"a": 1,', index=0)],
                [piece(None, '{"city": ', index=1)],
                [piece(None, ' "b": 2}', index=0), piece(None, '"Zürich"}', index=1)],
            ],
            [("c1", "add", ADD), ("c2", "get_weather", WEATHER)],
            id="interleaved",
        ),
        pytest.param(
            [[piece("add", ADD, index=3, call_id="c1")], [piece("now", "{}", index=7, call_id="c2")]],
            [("c1", "add", ADD), ("c2", "now", "{}")],
            id="gaps in the index",
        ),
        pytest.param(
            [[piece("add", ADD, index=0, call_id="c1")], [piece("get_weather", WEATHER, index=0, call_id="c2")]],
            [("c1", "add", ADD), ("c2", "get_weather", WEATHER)],
            id="index always 0, ids differ",
        ),
        pytest.param(
            [[piece("add", ADD, index=0)], [piece("get_weather", WEATHER, index=0)]],
            [("", "add", ADD), ("", "get_weather", WEATHER)],
            id="index always 0, no ids, names differ",
        ),
        pytest.param(
            [[piece("now", "{}", index=0)], [piece("now", "{}", index=0)]],
            [("", "now", "{}"), ("", "now", "{}")],
            id="index always 0, no ids, the same call twice",
        ),
        pytest.param(
            [[piece("add", ADD), piece("get_weather", WEATHER)]],
            [("", "add", ADD), ("", "get_weather", WEATHER)],
            id="neither index nor id, all at once",
        ),
        pytest.param(
            [[piece("add", ADD)], [piece("get_weather", WEATHER)]],
            [("", "add", ADD), ("", "get_weather", WEATHER)],
            id="neither index nor id, one after the other",
        ),
        pytest.param(
            [[piece("add", '{"a": 1,', call_id="c1")], [piece(None, ' "b": 2}')]],
            [("c1", "add", ADD)],
            id="no index, the id only in the first fragment",
        ),
        pytest.param(
            [
                [piece("add", '{"a": 1,', call_id="c1"), piece("get_weather", '{"city": ', call_id="c2")],
                [piece(None, '"Zürich"}', call_id="c2")],
                [piece(None, ' "b": 2}', call_id="c1")],
            ],
            [("c1", "add", ADD), ("c2", "get_weather", WEATHER)],
            id="no index, told apart by id",
        ),
        pytest.param(
            [
                [piece("add", '{"a": 1,'), piece("get_weather", '{"city": ')],
                [piece(None, ' "b": 2}'), piece(None, '"Zürich"}')],
            ],
            [("", "add", ADD), ("", "get_weather", WEATHER)],
            id="neither, told apart by position",
        ),
        pytest.param(
            [
                [piece("add", "", index=0, call_id="c1")],
                [piece("add", '{"a": 1,', index=0, call_id="c1")],
                [piece("add", ' "b": 2}', index=0, call_id="c1")],
                [piece("add", "", index=0, call_id="c1")],
            ],
            [("c1", "add", ADD)],
            id="the name again in each fragment",
        ),
        pytest.param(
            [[piece("add", '{"a": 1,', index=0)], [piece("add", ' "b": 2}', index=0)], [piece("add", "", index=0)]],
            [("", "add", ADD)],
            id="the name again in each fragment, no id",
        ),
        pytest.param(
            [[piece("wea", "", index=0, call_id="c1")], [piece("ther", "", index=0)], [piece(None, WEATHER, index=0)]],
            [("c1", "weather", WEATHER)],
            id="a name in two pieces",
        ),
        pytest.param(
            [
                [piece("wea", "", index=0, call_id="c1")],
                [piece("weather", "", index=0)],
                [piece(None, WEATHER, index=0)],
            ],
            [("c1", "weather", WEATHER)],
            id="a name that grows",
        ),
        pytest.param(
            [[piece("add", '{"a": 1,', index=0, call_id="c1")], [piece(None, ' "b": 2}', index=0, call_id="c9")]],
            [("c1", "add", ADD)],
            id="a fresh id in each fragment",
        ),
        pytest.param(
            [[piece("now", "", index=0, call_id="c1")]],
            [("c1", "now", "")],
            id="no arguments at all",
        ),
        pytest.param(
            [[piece("now", "", index=0)], [piece("add", "", index=0)], [piece(None, ADD, index=0)]],
            [("", "now", ""), ("", "add", ADD)],
            id="index always 0, no ids, the first without arguments",
        ),
        pytest.param(
            [[piece("add", {"a": 1, "b": "ü"}, index=0, call_id="c1")]],
            [("c1", "add", '{"a":1,"b":"ü"}')],
            id="arguments as an object",
        ),
        pytest.param(
            [[piece("add", ADD, call_id="same")], [piece("get_weather", WEATHER, call_id="same")]],
            [("same", "add", ADD), ("same", "get_weather", WEATHER)],
            id="one id for two calls",
        ),
        pytest.param(
            [[piece(None, '{"x":', index=0, call_id="c1")], [piece("later", "1}", index=0)]],
            [("c1", "later", '{"x":1}')],
            id="the name after the first arguments",
        ),
        pytest.param(
            [[piece("unheard_of", "", index=0, call_id="c1")]],
            [("c1", "unheard_of", "")],
            id="a name that is not known, without arguments",
        ),
        pytest.param([[{"function": None}, {"index": 0}, {}]], [], id="nothing in it"),
        pytest.param([[{"index": True, "function": {"name": 7, "arguments": None}}]], [], id="nonsense"),
    ],
)
def test_fragments_make_the_calls_that_were_meant(
    chunks: list[list[dict[str, object]]], expected: list[tuple[str, str, str]]
) -> None:
    assert calls(*chunks) == expected


def test_a_known_name_starts_its_call_before_any_arguments() -> None:
    steps = list(StreamedCalls(KNOWN).feed([piece("get_weather", "", index=0, call_id="c1")]))
    assert [(step.started, step.name, step.arguments) for step in steps] == [(True, "get_weather", "")]


def test_entries_that_are_no_objects_are_skipped() -> None:
    assert list(StreamedCalls(KNOWN).feed([None, 3, "x", ["y"]])) == []


def test_what_a_server_adds_to_a_call_is_passed_on_with_its_start() -> None:
    entry = {**piece("now", "{}", index=0), "extra_content": {"google": {"thought_signature": "s"}}}
    (step,) = StreamedCalls(KNOWN).feed([entry])
    assert step.extra == {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ('{"a": "}\\"\\\\"}', True),
        (' {"a": [{"b": "]"}]} ', True),
        ('{"a": "\\\\\\\\"}', True),
        ("{}", True),
        ('{"a": "}"', False),
        ('{"a": "\\\\}', False),
        ("{}{}", False),
        ("}{", False),
        ("[{}]", False),
        ('"{}"', False),
        ("17", False),
        ("{a}", False),
    ],
)
def test_the_end_of_arguments_is_found_whatever_pieces_they_come_in(text: str, is_whole: bool, size: int) -> None:
    streamed = StreamedCalls(KNOWN)
    for start in range(0, len(text), size):
        list(streamed.feed([piece(None if start else "get_weather", text[start : start + size])]))
    another = list(streamed.feed([piece("get_weather", '{"b":')]))
    assert [step.started for step in another] == [is_whole]


def test_each_fragment_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def loads(text: str) -> object:
        read.append(text)
        return {}

    monkeypatch.setattr(json, "loads", loads)
    streamed = StreamedCalls(KNOWN)
    for fragment in ['{"a": "', *["}{"] * 1_000, '"}']:
        list(streamed.feed([piece("get_weather", fragment)]))
    list(streamed.feed([piece("get_weather", "{}")]))
    assert len(read) == 1
