"""The turn rules of Bedrock Converse, written down a second time: what is wrong with a conversation.

Independent of the code under test, which establishes the rules; here they are only checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.bedrock.converse import Block, Turn
from gateway.bedrock.families import Family

_DOCUMENT_NAME = re.compile(r"(?!.*  )[a-zA-Z0-9 ()\[\]-]{1,200}")


def broken_rules(turns: Sequence[Turn], family: Family) -> list[str]:
    """One line for each rule that a message breaks; empty where the service would accept them all."""
    return [f"message {place}: {problem}" for place, problem in _problems(turns, family)]


def _problems(turns: Sequence[Turn], family: Family) -> Iterator[tuple[int, str]]:
    if [turn["role"] for turn in turns] != [("user", "assistant")[i % 2] for i in range(len(turns))]:
        yield 0, "the roles do not alternate from a user's"
    if not turns or turns[-1]["role"] != "user":
        yield len(turns), "the last is not a user's"
    names: list[str] = []
    ids: list[str] = []
    for place, turn in enumerate(turns):
        before = _calls(turns[place - 1]) if place else []
        ids += _calls(turn)
        for problem in (*_content(turn), *_results(turn, before, family), *_documents(turn, names)):
            yield place, problem
    if len(set(names)) != len(names):
        yield len(turns), "two documents have one name"
    if len(set(ids)) != len(ids):
        yield len(turns), "two calls have one id"


def _calls(turn: Turn) -> list[str]:
    return [block["toolUse"]["toolUseId"] for block in turn["content"] if "toolUse" in block]


def _parts(turn: Turn) -> Iterator[Any]:
    for block in turn["content"]:
        yield block
        if "toolResult" in block:
            yield from block["toolResult"]["content"]


def _content(turn: Turn) -> Iterator[str]:
    if not turn["content"]:
        yield "no content"
    for part in _parts(turn):
        if len(part) != 1:
            yield f"a block with {sorted(part)}"
        if not part.get("text", "x").strip():
            yield "a blank text"
    if turn["role"] == "assistant":
        if {kind for block in turn["content"] for kind in block} - {"text", "toolUse", "reasoningContent"}:
            yield "an answer with what only users send"
        if "reasoningContent" in turn["content"][-1]:
            yield "an answer that ends with reasoning"
    elif any("toolUse" in block or "reasoningContent" in block for block in turn["content"]):
        yield "a user's message with what only models say"


def _results(turn: Turn, calls_before: list[str], family: Family) -> Iterator[str]:
    content = turn["content"]
    answered = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
    if turn["role"] == "user" and answered != calls_before:
        yield f"the results {answered} answer the calls {calls_before}"
    if any("toolResult" not in block for block in content[: len(answered)]):
        yield "the results do not stand first"
    if any("toolResult" in block and not block["toolResult"]["content"] for block in content):
        yield "an empty result"
    others: list[Block] = content[len(answered) :]
    if answered and any(not family.beside_results & block.keys() for block in others if "cachePoint" not in block):
        yield "something stands beside results that must not"


def _documents(turn: Turn, names: list[str]) -> Iterator[str]:
    for part in _parts(turn):
        if "document" in part:
            names.append(part["document"]["name"])
            if not _DOCUMENT_NAME.fullmatch(part["document"]["name"]):
                yield f"a document is called {part['document']['name']!r}"
    if any("document" in block for block in turn["content"]) and not any("text" in b for b in turn["content"]):
        yield "a document without a text"
    for kind, limit in (("image", 20), ("document", 5)):
        if sum(kind in part for part in _parts(turn)) > limit:
            yield f"more than {limit} of {kind}"
