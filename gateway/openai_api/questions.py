"""Asks by words whether calls may run, and reads the answers that come as words.

Above: the renderers, which show the questions, and the starts of runs, which read them in a client's history.
Below: unseen, ids. Pure. The text shows each call as it would run, and ends with the approvals' ids:

    [Approval needed] The tool 'refund' needs your approval before it runs.

    ```json
    {"order_id":"1234","amount":99}
    ```

    Answer `approve` or `deny`, ... (approval mcpr_resp_..._1)

Models write names and arguments, so nothing in them may look like the end of the text, or be markdown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.events import Interrupt
from gateway.messages import Message, TextBlock
from gateway.openai_api.unseen import spelled_out
from gateway.tool_output import encodable

WAITS: Final = "[Approval needed]"
"""Begins the text that says what a run waits for. It is no part of the thread."""

REFUSED: Final = "The model refused to answer."
"""The refusal of a model that refuses without words for it. It is no part of the thread."""

_BETWEEN: Final = "\n\n"
_WORDS: Final[Mapping[str, bool]] = MappingProxyType({"approve": True, "deny": False})
_LONGEST_WORD: Final = 64  # with the space around it
_ELSEWHERE: Final = (
    "over AG-UI, or with a key that may approve (GET /approvals lists the calls that wait, POST /approvals/{id} "
    "answers one)"
)
_ID: Final = re.compile(r"mcpr_[A-Za-z0-9_-]+")
_IDS: Final = re.compile(rf"\(approval ({_ID.pattern}(?:, {_ID.pattern})*)\)\s*\Z")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_BACKTICKS: Final = re.compile(r"`+")


class Question(NamedTuple):
    """A question about a call. `approval_id` is the id of its `mcp_approval_request`; `arguments` is JSON as the
    model wrote it, and `name` the tool's; both are empty where nobody knows them any more.
    """

    interrupt: Interrupt
    approval_id: str
    name: str = ""
    arguments: str = ""


def question_text(questions: Sequence[Question], *, by_word: bool) -> str:
    """The question for a person, in words. `by_word`: an answer in words counts."""
    if not questions:
        return ""
    asked = _BETWEEN.join(_asked(each) for each in questions)
    told = f"{WAITS} {asked}{_BETWEEN}{_how(questions, by_word=by_word)}"
    ids = ", ".join(each.approval_id for each in questions if _ID.fullmatch(each.approval_id))
    return f"{told} (approval {ids})" if ids else told


def _asked(question: Question) -> str:
    name = question.name
    told = spelled_out(encodable(question.interrupt.message))
    if name and not _PLAIN_NAME.fullmatch(name):
        told = f"The tool {_code(name)} needs an approval before it runs."
    if not name:
        return told
    told = told or f"The tool {name!r} needs your approval before it runs."  # a run without its log lacks it
    return f"{told}{_BETWEEN}{_fenced(question.arguments or '{}')}"


def _how(questions: Sequence[Question], *, by_word: bool) -> str:
    after = "The agent goes on once that is decided: write here again then."
    if not by_word:
        return f"Answer {_ELSEWHERE}. {after}"
    if any(_is_others(each.interrupt) for each in questions):
        return f"Answer `deny`, with nothing else in the message; somebody else approves it {_ELSEWHERE}. {after}"
    return f"Answer `approve` or `deny`, with nothing else in the message; or {_ELSEWHERE}."


def _is_others(interrupt: Interrupt) -> bool:
    """Whether only a key that may approve says yes."""
    note = (interrupt.metadata or {}).get("agui_gateway")
    return isinstance(note, dict) and note.get("approvers") == "keys"


def _code(text: str) -> str:
    """The text as markdown's inline code."""
    shown = " ".join(spelled_out(encodable(text)).split())
    ticks = "`" * (_longest_ticks(shown) + 1)
    return f"{ticks} {shown} {ticks}" if len(ticks) > 1 else f"`{shown}`"


def _fenced(text: str) -> str:
    """The text as a block of code, which nothing in it ends."""
    shown = spelled_out(encodable(text))
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    return f"{fence}json\n{shown}\n{fence}"


def _longest_ticks(text: str) -> int:
    return max((len(found) for found in _BACKTICKS.findall(text)), default=0)


# --- what comes back --------------------------------------------------------------------------------------------------


def asked_ids(text: str) -> Sequence[str]:
    """The ids of the approvals that a question asks for; none of any other text."""
    if WAITS not in text or (found := _IDS.search(text)) is None:
        return ()
    return found[1].split(", ")


def is_question(text: str) -> bool:
    """Whether a text is a question and nothing else."""
    return text.lstrip().startswith(WAITS)


def decision_of(message: Message) -> bool | None:
    """The decision of a person's message that is exactly `approve` or `deny`; None: it is another message."""
    if message.role != "user" or len(message.content) != 1 or not isinstance(block := message.content[0], TextBlock):
        return None
    return _WORDS.get(block.text.strip().lower()) if len(block.text) <= _LONGEST_WORD else None
