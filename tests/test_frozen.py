"""What is quickly made is what a frozen dataclass makes, and as frozen."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from gateway.events import TextDelta
from gateway.frozen import draft_of, quickly_made, replace
from gateway.messages import Message, TextBlock
from gateway.store import Thread


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    """Made quickly."""

    name: str
    count: int = 3
    parts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plain:
    """Made as Python makes it."""

    name: str
    count: int = 3
    parts: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("positional", "named"),
    [(("a",), {}), (("a", 4), {}), (("a", 4, ["b"]), {}), ((), {"parts": ["b"], "name": "a"}), (("a",), {"count": 0})],
)
def test_an_object_has_the_fields_that_it_was_given_and_the_defaults_of_the_others(
    positional: tuple[Any, ...], named: dict[str, Any]
) -> None:
    quick, plain = Quick(*positional, **named), Plain(*positional, **named)
    assert type(quick) is Quick
    assert dataclasses.astuple(quick) == dataclasses.astuple(plain)
    assert repr(quick) == repr(plain).replace("Plain", "Quick")


def test_every_object_gets_a_value_of_its_own_from_a_factory() -> None:
    one, other = Quick("a"), Quick("a")
    assert one == other
    assert one.parts is not other.parts


def test_nothing_of_a_made_object_can_be_changed() -> None:
    for made in (Quick("a"), replace(Quick("a"), count=4), TextDelta("m", "a")):
        for name in dataclasses.asdict(made):
            with pytest.raises(FrozenInstanceError):
                setattr(made, name, "b")
            with pytest.raises(FrozenInstanceError):
                delattr(made, name)


def test_a_call_that_does_not_fit_is_refused_as_ever() -> None:
    make: Any = Quick
    for positional, named in (((), {}), (("a", 1, [], 2), {}), (("a",), {"size": 1}), (("a",), {"name": "b"})):
        with pytest.raises(TypeError):
            make(*positional, **named)
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))


def test_a_record_is_made_anew_with_changes_and_stays_as_it_was() -> None:
    record = Thread("o", "t", "a", 1.0, 2.0, messages=(Message("m", "user", (TextBlock("a"),)),))
    changed = replace(record, title="b", updated_at=3.0)
    assert changed == dataclasses.replace(record, title="b", updated_at=3.0)
    assert type(changed) is Thread
    assert (record.title, record.updated_at) == (None, 2.0)
    assert replace(Plain("a"), count=4) == Plain("a", 4)


def test_objects_are_copied_and_pickled_as_others_are() -> None:
    record = Quick("a", 4, ["b"])
    for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert type(copied) is Quick
        assert copied == record


def test_a_class_that_extends_one_is_made_and_made_anew_as_itself() -> None:
    @dataclass(frozen=True, slots=True)
    class Extended(Quick):
        more: str = ""

    assert replace(Extended("a", more="c"), count=4) == Extended("a", 4, [], "c")


def test_a_draft_becomes_an_object_of_its_class() -> None:
    draft: Any = draft_of(Quick)()
    draft.name, draft.count, draft.parts = "a", 3, []
    draft.__class__ = Quick
    assert draft == Quick("a")


def test_a_class_that_does_more_when_it_makes_an_object_cannot_be_quickly_made() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        name: str

        def __post_init__(self) -> None:
            assert self.name

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        name: str

    for made in (Checked, Named):
        with pytest.raises(TypeError, match="is not made of its fields in their order alone"):
            quickly_made(made)
