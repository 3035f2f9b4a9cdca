"""The system prompt: the agent's own prompt, the application's context, the shared state.

Below: loop. Above: the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.agent import ContextEntry
from gateway.loop import LoopContext
from gateway.messages import JsonValue
from gateway.records import dump_json

# A larger state would crowd out the conversation; tools still get all of it.
_LARGEST_STATE_CHARACTERS = 50_000
_TOO_LARGE = "too large to be shown here ({size:,} characters of JSON)"


def system_text(context: LoopContext, instruction: str = "") -> str:
    """The system prompt of one model call; empty if it has no parts. `instruction` goes last.

    The application's context and state are in it if the agent allows that (see agent.ClientInstructions).
    """
    parts = [context.agent.system_prompt.strip()]
    if context.agent.client_instructions.voice(context.owner) == "system":
        parts += [
            context.instructions.strip(),
            _context_text(context.input.application.context),
            _state_text(context.state.value),
        ]
    return "\n\n".join(part for part in (*parts, instruction) if part)


def is_empty(state: JsonValue) -> bool:
    """Whether a shared state has no content."""
    return state is None or state == {} or state == [] or state == ""


def shown_state(state: JsonValue) -> JsonValue:
    """The state; a sentence in its place if it is too large."""
    size = len(dump_json(state).decode())
    return state if size <= _LARGEST_STATE_CHARACTERS else f"It is {_TOO_LARGE.format(size=size)}."


def _context_text(entries: Sequence[ContextEntry]) -> str:
    if not entries:
        return ""
    lines = ["The application gives this context:"]
    for entry in entries:
        description, value = entry.description.strip(), entry.value.strip()
        if "\n" in value:  # a value of many lines stands apart, so that its end is clear
            lines.append(f'<context description="{description}">\n{value}\n</context>')
        else:
            lines.append(f"- {description}: {value}" if description else f"- {value}")
    return "\n".join(lines)


def _state_text(state: JsonValue) -> str:
    if is_empty(state):
        return ""
    text = dump_json(state).decode()
    if len(text) > _LARGEST_STATE_CHARACTERS:
        return f"The application's shared state is {_TOO_LARGE.format(size=len(text))}."
    return f"The application's shared state, as JSON:\n{text}"
