"""A large document of JSON, read in steps, is what it is when it is read at once; and no step is long."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any, Final

import orjson
import pytest

from gateway.wire import large_json, strict_json
from gateway.wire.large_json import MAX_VALUES, TooManyValuesError, load_in_steps
from gateway.wire.strict_json import MAX_DEPTH, NotStrictJsonError
from tests.counted_work import lines_executed

WORDS: Final[list[Any]] = [1, 2.5, None, True, "", "a", 'é"\\', '[,{\\"', "x" * 90, -7, "\\", "😀,]"]


def loaded(body: bytes) -> Any:
    steps = load_in_steps(body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def outcome(read: Any, body: bytes) -> bytes | None:
    """The document as it is written again; None: it is refused."""
    try:
        return orjson.dumps(read(body))
    except NotStrictJsonError:
        return None


def any_value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.random()
    if depth > 5 or kind < 0.3:
        return random_.choice(WORDS)
    if kind < 0.65:
        return [any_value(random_, depth + 1) for _ in range(random_.randrange(9))]
    names = ["a", 'b"', "c\\", ""]
    return {f"{random_.choice(names)}{i % 7}": any_value(random_, depth + 1) for i in range(random_.randrange(9))}


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "_WINDOW_BYTES", 7)
    monkeypatch.setattr(large_json, "_PIECE_BYTES", 40)
    monkeypatch.setattr(large_json, "_FEW_VALUES", 0)


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(each, marks=pytest.mark.thorough) for each in range(10, 40))]
)
def test_a_document_in_pieces_is_read_and_refused_as_the_whole_one_is(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(20):
        body = orjson.dumps(any_value(random_), option=random_.choice([0, orjson.OPT_INDENT_2]))
        for errors in range(4):
            broken = bytearray(body)
            for _ in range(errors):
                broken[random_.randrange(len(broken))] = random_.choice(b'"\\[]{},: 1a')
            assert outcome(loaded, bytes(broken)) == outcome(strict_json.load, bytes(broken)), bytes(broken)


MANY: Final = b"1," * 60_000 + b"1"
LARGE: Final = b"[" + MANY + b"]"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" + LARGE + b"," + b" " * 200_000 + b"," + MANY + b"]", "comma|unexpected"),
        (b'{"a":1,' + LARGE + b":2}", "a value"),
        (b'["a"' + LARGE + b"]", "unexpected"),
        (b"[" + LARGE + LARGE + b"]", "unexpected|a value"),
        (LARGE + b"1", "unexpected|trailing"),
        (LARGE + LARGE, "unexpected|trailing"),
        (LARGE + b"]", "unexpected end of an array"),
        (LARGE[:-1] + b"}", "unexpected end of an object"),
        (LARGE[:-1], "unexpected end of data"),
        (LARGE[:-1] + b',"', "unexpected end of data"),
        (LARGE[:-1] + b",NaN]", "line 1"),
        (LARGE[:-1] + b',"\xff"]', "UTF-8|utf-8"),
        (b"[" * (MAX_DEPTH + 1) + MANY + b"]" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} deep"),
        (b'{"a":1,"b":' + LARGE + b',"a":2}', "'a' twice"),
        (b'{"b":' + LARGE + b',"c":' + LARGE + b',"b":2}', "'b' twice"),
    ],
)
def test_what_is_no_strict_json_is_refused_in_steps_too(body: bytes, why: str) -> None:
    with pytest.raises(NotStrictJsonError, match=why):
        loaded(body)


def test_the_deepest_document_that_is_taken_is_taken_in_steps_too() -> None:
    body = b"[" * (MAX_DEPTH - 1) + LARGE[1:-1] + b"]" * (MAX_DEPTH - 1)
    assert orjson.dumps(loaded(body)) == body


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * (MAX_VALUES + 1) + b"1]",
        b"[" + b"{}," * MAX_VALUES + b"1]",
        b'{"a":[' + b"[[]]," * MAX_VALUES + b"1]}",
        b"{" + b",".join(b'"k%d":1' % i for i in range(600_000)) + b"}",
    ],
    ids=["numbers", "empty objects", "empty arrays", "members"],
)
def test_a_document_of_too_many_values_is_not_parsed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    monkeypatch.setattr(orjson, "loads", lambda piece: parsed.append(len(piece)))
    with pytest.raises(TooManyValuesError):
        loaded(body)
    assert not parsed


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    said = ',[{"\\' * 400_000
    assert loaded(orjson.dumps({"said": said, "more": [said]})) == {"said": said, "more": [said]}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * 400_000 + b"1]",
        b"[" + b'{"a":1},' * 200_000 + b"1]",
        b"[" + b'"",' * 300_000 + b"1]",
        b"{" + b",".join(b'"k%d":[{}]' % i for i in range(120_000)) + b"}",
        b'{"a":' * 190 + LARGE + b"}" * 190,
        orjson.dumps([{"id": f"m{i}", "role": "user", "content": "well, " * 150} for i in range(10_000)]),
    ],
    ids=["numbers", "objects", "texts", "members", "deep", "messages"],
)
def test_no_step_is_long(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    load = orjson.loads

    def counted(piece: bytes) -> Any:
        pieces.append(len(piece))
        return load(piece)

    monkeypatch.setattr(orjson, "loads", counted)
    steps, longest, ended = load_in_steps(body), 0, False

    def step() -> None:
        nonlocal ended
        try:
            next(steps)
        except StopIteration:
            ended = True

    while not ended:
        longest = max(longest, lines_executed(step))
    assert longest < 300_000, "a line takes some 50 ns"
    assert max(pieces) < 3 * 65_536
    assert len(pieces) >= len(body) // (3 * 65_536)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"k%07d":1' % i for i in range(490_000)) + b"}",
        b"[" + b",".join(b'{"id":"m%d","content":"x"}' % i for i in range(120_000)) + b"]",
        orjson.dumps([{"id": f"m{i}", "role": "user", "content": "x" * 900} for i in range(9_900)]),
        orjson.dumps(["\\\n" * 4_000_000]),
    ],
    ids=["members", "small objects", "messages", "one text"],
)
def test_a_document_takes_at_most_twenty_times_its_size(body: bytes) -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    document = loaded(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert document
    assert peak - before < 20 * len(body)
