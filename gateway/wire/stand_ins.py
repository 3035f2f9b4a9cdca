"""The texts that a model reads in place of content that its provider refuses, or where the provider requires content.
Pure.

They are the same for all models, so that a thread can move from one model to another.
"""

from __future__ import annotations

from typing import Final

OPENING: Final = "(the conversation begins)"
GO_ON: Final = "(go on)"
NO_CONTENT: Final = "(no content)"
NO_OUTPUT: Final = "(no output)"
# After a crash nobody knows how far the tool came.
UNANSWERED: Final = "This call was not answered: there is no result of it. What it does may have been done, or not."
WAITING: Final = "This call was not run: it waits for a person's approval, where another agent asked for it."
TAKEN_BACK: Final = "This answer was taken back: a filter found that it must not be given."  # people read it, too

# Why a medium was left out.
NO_SUCH_MEDIA: Final = "the model takes no such thing"
NO_SUCH_FORMAT: Final = "the model does not take its format"
BROKEN: Final = "its data is empty or broken"
OUT_OF_REACH: Final = "the model cannot reach it where it is"
KEPT_ELSEWHERE: Final = "it is kept by another provider"
ONLY_USERS: Final = "only users can send one"


def left_out(kind: str, why: str) -> str:
    """The text in place of a medium that is not sent. `kind` is a noun."""
    return f"({_article(kind)} {kind} was left out: {why})"


def attached_below(kind: str) -> str:
    """The text in a tool's result in place of a medium that only a later message can hold. `kind` is a noun."""
    return f"({_article(kind)} {kind} is attached below)"


def result_of(tool: str) -> str:
    """The text that introduces a medium which follows outside of its tool's result."""
    return f"From the result of the tool {tool or 'call'}:"


def _article(kind: str) -> str:
    return "an" if kind[:1] in "aeiou" else "a"
