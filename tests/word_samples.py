"""Any value of the vocabulary, for property tests: strategies for the classes of messages.py and events.py."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from gateway import events, messages
from gateway.events import StopReason
from gateway.messages import JsonValue

# The same examples in every run, nothing kept on disk, no clock.
REPEATABLE = settings(derandomize=True, database=None, deadline=None, max_examples=100)


def joined(text: str) -> str:
    """The text with two surrogate halves that stand together made the character they are: JSON knows no difference."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


_TRICKY = ["\ud83d", "\ude00", "a\ud83d", "\n\r\u2028\u0085", "\0", '"\\', "😀", "null"]
any_text: st.SearchStrategy[str] = st.one_of(
    st.text(st.characters(), max_size=8).map(joined), st.sampled_from(_TRICKY), st.just("")
)
any_json: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
any_object = st.dictionaries(any_text, any_json, max_size=3)


def word_classes() -> tuple[type, ...]:
    """Every dataclass of the vocabulary."""
    return (*_dataclasses_of(messages), *_dataclasses_of(events))


def words(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of the class; fields with a default are left to it now and then."""
    if issubclass(cls, events.Deltas):
        return st.builds(cls, any_text, any_text | st.lists(any_text, min_size=1, max_size=3))
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in dataclasses.fields(cls):
        place = required if field.default is dataclasses.MISSING else optional
        place[field.name] = _values(str(field.type))
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: cls(**values))


def _dataclasses_of(module: ModuleType) -> tuple[type, ...]:
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
        if value is not events.Deltas and not value.__name__.startswith("_")  # what their kinds have in common
    )


def _values(annotation: str) -> st.SearchStrategy[Any]:
    """Values of a field, by its annotation. An annotation that is not here fails: somebody has to think of it."""
    if annotation.endswith(" | None"):
        return st.none() | _values(annotation.removesuffix(" | None"))
    if annotation.startswith("tuple[") and annotation.endswith(", ...]"):
        return st.lists(_values(annotation[6:-6]), max_size=2).map(tuple)
    return _BY_ANNOTATION[annotation]


_NAMED: dict[str, tuple[type, ...]] = {
    "Opaque": (messages.Opaque,),
    "Message": (messages.Message,),
    "ToolCall": (messages.ToolCall,),
    "Usage": (events.Usage,),
    "Interrupt": (events.Interrupt,),
    "RemoteError": (events.RemoteError,),
    "MediaBlock": (messages.ImageBlock, messages.AudioBlock, messages.VideoBlock, messages.DocumentBlock),
    "MediaSource": (messages.Base64Source, messages.UrlSource, messages.FileSource),
    "Outcome": (events.Completed, events.Interrupted, events.Incomplete, events.Cancelled),
    "ContentBlock": (
        messages.TextBlock,
        messages.ReasoningBlock,
        messages.ImageBlock,
        messages.AudioBlock,
        messages.VideoBlock,
        messages.DocumentBlock,
        messages.ToolCall,
        messages.ToolResult,
    ),
}


def _any_of(classes: tuple[type, ...]) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: st.one_of([words(cls) for cls in classes]))


_BY_ANNOTATION: dict[str, st.SearchStrategy[Any]] = {
    "str": any_text,
    "int": st.integers(-1, 2**40),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "JsonValue": any_json,
    "JsonObject": any_object,
    "Role": st.sampled_from(["system", "developer", "user", "assistant", "reasoning", "tool"]),
    "StopReason": st.sampled_from(list(StopReason)),
    "Executor": st.sampled_from(["backend", "client"]),
    **{name: _any_of(classes) for name, classes in _NAMED.items()},
}
