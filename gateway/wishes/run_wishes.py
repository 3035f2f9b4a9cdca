"""All that a request may wish for its one run.

Below: generation. Above: agent, whose `AgentInput` carries it; runs.run_terms makes one of it and the agent's
definition.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from gateway.messages import JsonObject
from gateway.wishes.generation import NO_OPTIONS, GenerationOptions, JsonFormat, OneTool, ToolChoice

ConcurrentRuns: TypeAlias = Literal["reject", "enqueue", "cancel_previous"]
Lockable: TypeAlias = Literal[
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "parallel_calls",
    "reasoning_effort",
    "reasoning_summary",
    "max_iteration",
    "max_tool_calls",
    "max_total_tokens",
    "max_earlier_messages",
    "tool_choice",
    "tools",
    "detached",
    "on_concurrent_run",
]
"""What an agent's operator can keep callers from setting. `instructions` are ruled by `client_instructions`, and
`model` by `allow_models`; `system_prompt` is for the agent's owner, who made the agent.
"""


@dataclass(frozen=True, slots=True)
class WishedLimits:
    """Of the agent's limits, those that a request may set. None: as the agent has it.

    `max_earlier_messages`: how many messages before the last question the model is shown.
    """

    max_iteration: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_earlier_messages: int | None = None


@dataclass(frozen=True, slots=True)
class RunWishes:
    """A request's wishes. What is not said is as the agent has it.

    `tool_choice` concerns the request's own tools: which of them the first answer has to call, or that none is to be
    called in the whole run. `instructions` are told the model as a client's system message is. `tools` are the backend
    tools that the model may call, by name; None: all. `detached`: the run goes on when nobody watches it. `model`: the
    id of the model that answers in place of the agent's; one that the agent does not allow is ignored. `system_prompt`
    takes the place of the agent's, if it is not empty: a wish of the agent's owner alone.
    """

    options: GenerationOptions = NO_OPTIONS
    tool_choice: ToolChoice = "auto"
    instructions: str = ""
    tools: tuple[str, ...] | None = None
    limits: WishedLimits = WishedLimits()
    detached: bool = False
    on_concurrent_run: ConcurrentRuns | None = None
    model: str = ""
    system_prompt: str = ""

    @property
    def lockable(self) -> tuple[str, ...]:
        """The names, as in LOCKABLE, of what is wished and can be locked."""
        said: list[str] = list(self.options.named)
        said += [name for name in _LIMITS if getattr(self.limits, name) is not None]
        return (*said, *(name for name in _OTHERS if getattr(self, name) != getattr(NO_WISHES, name)))


NO_WISHES = RunWishes()
_LIMITS = tuple(field.name for field in fields(WishedLimits))
_OTHERS = ("tool_choice", "tools", "detached", "on_concurrent_run")
LOCKABLE = frozenset(get_args(Lockable))


def without(wishes: RunWishes, names: frozenset[str]) -> RunWishes:
    """The wishes but for these names of LOCKABLE."""
    kept = {field.name: getattr(wishes, field.name) for field in fields(wishes) if field.name not in names}
    kept["options"] = _but_for(wishes.options, names)
    kept["limits"] = _but_for(wishes.limits, names)
    return RunWishes(**kept)


def _but_for(part: Any, names: frozenset[str]) -> Any:
    return type(part)(**{field.name: getattr(part, field.name) for field in fields(part) if field.name not in names})


# --- as JSON, for a run that another process goes on with ------------------------------------------------------------


def wishes_record(wishes: RunWishes) -> JsonObject:
    """The wishes as JSON; `stored_wishes` reads it."""
    return cast(JsonObject, asdict(wishes))


def stored_wishes(record: JsonObject) -> RunWishes:
    """What `wishes_record` made a record of."""
    stored = cast("dict[str, Any]", record)
    options, choice = {**stored["options"]}, stored["tool_choice"]
    if (stop := options["stop"]) is not None:
        options["stop"] = tuple(stop)
    if (form := options["response_format"]) is not None:
        options["response_format"] = JsonFormat(**form)
    return RunWishes(
        **{
            **stored,
            "options": GenerationOptions(**options),
            "tool_choice": OneTool(**choice) if isinstance(choice, dict) else choice,
            "tools": None if stored["tools"] is None else tuple(stored["tools"]),
            "limits": WishedLimits(**stored["limits"]),
        }
    )
