"""gateway.documents.sealing: members of documents that are kept encrypted."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.documents.sealing import Sealing, parse_key, put_together, taken_apart, texts_in
from gateway.errors import UnavailableError
from gateway.messages import JsonObject, JsonValue

OLD, NEW = os.urandom(32), os.urandom(32)
VALUES: dict[str, JsonValue] = {"/credential": {"api_key": "secret"}, "/a/0": "tö\ud800ken", "/n": 7}

NAMES = st.sampled_from(["a", "b", "a/b", "~", "0", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab~/", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
POINTERS = st.lists(
    st.lists(st.sampled_from(["a", "b", "a~1b", "~0", "0", "1", "", "*"]), min_size=1, max_size=3).map(
        lambda tokens: "/" + "/".join(tokens)
    ),
    max_size=3,
)


def test_what_was_sealed_is_opened_and_is_not_to_be_seen() -> None:
    sealed = Sealing([NEW]).seal("agent", "a1", VALUES)
    assert sealed.keys() == VALUES.keys()
    assert Sealing([NEW]).open("agent", "a1", sealed) == VALUES
    for text in sealed.values():
        assert b"secret" not in base64.b64decode(text.rpartition(":")[2])
    assert sealed != Sealing([NEW]).seal("agent", "a1", VALUES), "nothing is sealed twice with one nonce"


def test_the_first_key_seals_and_all_open() -> None:
    sealed = Sealing([OLD]).seal("agent", "a1", VALUES)
    both = Sealing([NEW, OLD])
    assert both.open("agent", "a1", sealed) == VALUES
    again = both.seal("agent", "a1", VALUES)
    assert Sealing([NEW]).open("agent", "a1", again) == VALUES
    with pytest.raises(UnavailableError) as raised:
        Sealing([OLD]).open("agent", "a1", again)
    assert raised.value.code == "sealing_key_missing"
    assert "'server.master_keys'" in raised.value.message


@pytest.mark.parametrize("place", [("tool", "a1", "/n"), ("agent", "a2", "/n"), ("agent", "a1", "/credential")])
def test_what_was_sealed_for_one_place_is_opened_in_no_other(place: tuple[str, str, str]) -> None:
    kind, document_id, pointer = place
    sealed = Sealing([NEW]).seal("agent", "a1", {"/n": "secret"})
    with pytest.raises(UnavailableError) as raised:
        Sealing([NEW]).open(kind, document_id, {pointer: sealed["/n"]})
    assert raised.value.code == "sealed_value_damaged"


@pytest.mark.parametrize("position", range(0, 40, 7))
def test_what_was_changed_is_not_opened(position: int) -> None:
    sealed = Sealing([NEW]).seal("agent", "a1", {"/n": "secret"})["/n"]
    begin, _, data = sealed.rpartition(":")
    changed = bytearray(base64.b64decode(data))
    changed[position] ^= 1
    with pytest.raises(UnavailableError):
        Sealing([NEW]).open("agent", "a1", {"/n": f"{begin}:{base64.b64encode(changed).decode()}"})
    for garbage in ("", "v1", "v2:x:y", f"{begin}:", f"{begin}:!", sealed[:-8]):
        with pytest.raises(UnavailableError):
            Sealing([NEW]).open("agent", "a1", {"/n": garbage})


def test_a_key_is_32_bytes_in_base64() -> None:
    for encoded in (base64.b64encode(NEW), base64.urlsafe_b64encode(NEW), base64.b64encode(NEW) + b"\n"):
        assert parse_key(encoded.decode()) == NEW
    for wrong, problem in (
        ("short", "base64"),
        ("ä" * 44, "base64"),
        (base64.b64encode(NEW[:16]).decode(), "32 bytes"),
    ):
        with pytest.raises(ValueError, match=problem):
            parse_key(wrong)


@pytest.mark.parametrize(
    ("pointers", "kept", "taken"),
    [
        ((), {"a": {"b": [1, {"c": 2}]}, "x": None}, {}),
        (("/a",), {"x": None}, {"/a": {"b": [1, {"c": 2}]}}),
        (("/a/b/1/c",), {"a": {"b": [1, {}]}, "x": None}, {"/a/b/1/c": 2}),
        (("/a/b/*",), {"a": {"b": [None, None]}, "x": None}, {"/a/b/0": 1, "/a/b/1": {"c": 2}}),
        (("/*/b/*/c", "/x"), {"a": {"b": [1, {}]}, "x": None}, {"/a/b/1/c": 2}),
        (("/nowhere/at/all",), {"a": {"b": [1, {"c": 2}]}, "x": None}, {}),
    ],
)
def test_a_body_is_taken_apart(pointers: tuple[str, ...], kept: JsonObject, taken: JsonObject) -> None:
    assert taken_apart({"a": {"b": [1, {"c": 2}]}, "x": None}, pointers) == (kept, taken)


@given(st.dictionaries(NAMES, JSON, max_size=4), POINTERS)
def test_what_was_taken_apart_is_put_together(body: JsonObject, pointers: list[str]) -> None:
    kept, taken = taken_apart(body, pointers)
    put_together(kept, taken)
    assert kept == body


def test_texts_are_found_wherever_they_are() -> None:
    assert list(texts_in(["a", {"b": ["c", 1, None]}, [{"d": "e"}]])) == ["a", "c", "e"]
