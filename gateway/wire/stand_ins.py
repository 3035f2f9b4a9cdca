"""What a model reads in the place of what its provider does not take, or where the provider insists on something.

The same words whichever model answers: a thread that goes from one to another reads alike to both. Pure.
"""

from __future__ import annotations

from typing import Final

OPENING: Final = "(the conversation begins)"
GO_ON: Final = "(go on)"
NO_CONTENT: Final = "(no content)"
NO_OUTPUT: Final = "(no output)"
# Behind a crash nobody knows how far the tool came.
UNANSWERED: Final = "This call was not answered: there is no result of it. What it does may have been done, or not."
TAKEN_BACK: Final = "This answer was taken back: a filter found that it must not be given."  # people read it, too

# Why a medium was left out.
NO_SUCH_MEDIA: Final = "the model takes no such thing"
NO_SUCH_FORMAT: Final = "the model does not take its format"
BROKEN: Final = "its data is empty or broken"
OUT_OF_REACH: Final = "the model cannot reach it where it is"
KEPT_ELSEWHERE: Final = "it is kept by another provider"
ONLY_USERS: Final = "only users can send one"


def left_out(kind: str, why: str) -> str:
    """In the place of a medium that is not sent. `kind` is a noun."""
    return f"({_article(kind)} {kind} was left out: {why})"


def attached_below(kind: str) -> str:
    """In a tool's result, which can hold no medium: it follows. `kind` is a noun."""
    return f"({_article(kind)} {kind} is attached below)"


def result_of(tool: str) -> str:
    """Before a medium that stands outside of its tool's result."""
    return f"From the result of the tool {tool or 'call'}:"


def _article(kind: str) -> str:
    return "an" if kind[:1] in "aeiou" else "a"
