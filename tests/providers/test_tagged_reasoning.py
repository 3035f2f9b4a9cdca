"""gateway.providers.tagged_reasoning."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.tagged_reasoning import TaggedReasoning


def read(pieces: Sequence[str]) -> tuple[str, str]:
    """All of the reasoning, and all of the text."""
    tagged = TaggedReasoning("<thinking>", "</thinking>")
    found = [item for piece in pieces for item in tagged.feed(piece)] + tagged.flush()
    assert all(words for _, words in found)
    return "".join(w for is_reasoning, w in found if is_reasoning), "".join(w for is_r, w in found if not is_r)


@pytest.mark.parametrize(
    ("whole", "reasoning", "text"),
    [
        ("<thinking> To find it</thinking>\n\nIt is 5.", " To find it", "It is 5."),
        ("\n <thinking>a</thinking><thinking>b</thinking> c ", "ab", "c "),
        ("<thinking>only", "only", ""),
        ("<thinking>a < b </thinkin", "a < b </thinkin", ""),
        ("<thinking></thinking>\n", "", ""),
        ("no tags", "", "no tags"),
        ("  indented", "", "  indented"),
        ("<think", "", "<think"),
        ("write <thinking>x</thinking>", "", "write <thinking>x</thinking>"),
        ("<thinking>a</thinking>b <thinking>c</thinking>", "a", "b <thinking>c</thinking>"),
        ("", "", ""),
    ],
)
def test_tags_at_the_beginning_are_reasoning_however_the_text_is_cut(whole: str, reasoning: str, text: str) -> None:
    assert read([whole]) == (reasoning, text)
    assert read(list(whole)) == (reasoning, text)


@given(st.lists(st.sampled_from(["<thinking>", "</thinking>", "<think", "ing>", "</", " ", "a", "\n"])), st.data())
def test_where_the_text_is_cut_makes_no_difference(parts: list[str], data: st.DataObject) -> None:
    whole = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(pieces) == read([whole])


def test_text_is_not_held_back_longer_than_it_must_be() -> None:
    tagged = TaggedReasoning("<thinking>", "</thinking>")
    assert tagged.feed("Hel") == [(False, "Hel")]
    assert tagged.feed("lo <") == [(False, "lo <")]
    tagged = TaggedReasoning("<thinking>", "</thinking>")
    assert tagged.feed("<thinking>one two </") == [(True, "one two ")]
    assert tagged.feed("b>") == [(True, "</b>")]
