"""How a delta goes on with what a content says."""

from __future__ import annotations

import pytest

from gateway.agent_api.deltas import joined, joined_data
from gateway.messages import JsonObject, JsonValue


@pytest.mark.parametrize(
    ("held", "added", "both"),
    [
        ("a", "b", "ab"),
        (1, 2, 3),
        (1, 0.5, 1.5),
        ([1], [2, 3], [1, 2, 3]),
        ({"x": "a"}, {"x": "b", "y": 1}, {"x": "ab", "y": 1}),
        (True, False, False),
        (1, True, True),
        (True, 1, 1),
        ("a", 1, 1),
        ("a", None, None),
        (None, "a", "a"),
        ([1], "a", "a"),
        ({"x": 1}, [1], [1]),
    ],
)
def test_a_member_that_both_have_is_joined_by_its_kind(held: JsonValue, added: JsonValue, both: JsonValue) -> None:
    joined_ones = joined_data({"member": held, "before": 1}, {"member": added, "after": 2})
    assert joined_ones == {"member": both, "before": 1, "after": 2}
    assert list(joined_ones) == ["member", "before", "after"]


def test_joining_changes_neither_of_the_two() -> None:
    held: JsonObject = {"list": [1], "object": {"text": "a"}}
    added: JsonObject = {"list": [2], "object": {"text": "b"}}
    assert joined_data(held, added) == {"list": [1, 2], "object": {"text": "ab"}}
    assert held == {"list": [1], "object": {"text": "a"}}
    assert added == {"list": [2], "object": {"text": "b"}}


@pytest.mark.parametrize("member", ["text", "refusal", "data", "file_data"])
def test_texts_and_base64_come_in_pieces(member: str) -> None:
    assert joined(member, "AA", "BB") == "AABB"


@pytest.mark.parametrize("member", ["image_url", "video_url", "file_url", "file_id", "filename", "format"])
def test_a_url_a_name_and_a_format_are_whole_in_each_delta(member: str) -> None:
    assert joined(member, "first", "second") == "second"


def test_a_delta_that_says_nothing_of_a_member_leaves_it() -> None:
    assert joined("format", "wav", None) == "wav"
    assert joined("text", None, "a") == "a"
