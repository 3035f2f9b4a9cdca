"""JSON pointers, and the names that they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.json_pointer import names_in, pointer_to


# https://www.rfc-editor.org/rfc/rfc6901#section-5
@pytest.mark.parametrize(
    ("path", "pointer"),
    [((), ""), (("foo", 0), "/foo/0"), (("",), "/"), (("a/b",), "/a~1b"), (("m~n",), "/m~0n"), (("~1",), "/~01")],
)
def test_a_pointer_has_its_names_escaped(path: tuple[str | int, ...], pointer: str) -> None:
    assert pointer_to(path) == pointer
    assert names_in(pointer) == [str(name) for name in path]


@given(st.lists(st.text()))
def test_the_names_of_a_pointer_are_found_again(names: list[str]) -> None:
    assert names_in(pointer_to(names)) == names
