"""The options that a request sets for its one run.

Below: generation. Above: agent, whose `InputTerms` has these options; runs.run_terms, which combines them with the
agent's definition.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from gateway.messages import JsonObject
from gateway.options.generation import NO_OPTIONS, GenerationOptions, JsonFormat, OneTool, ToolChoice

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
"""The options that an agent's operator can lock, so that callers cannot set them. `client_instructions` decides about
`instructions`, and `allow_models` about `model`; `system_prompt` is for the agent's owner, who made the agent.
"""


@dataclass(frozen=True, slots=True)
class RequestedLimits:
    """The limits of an agent that a request may set. None: the agent's own limit.

    `max_earlier_messages`: how many messages before the last question the model sees.
    """

    max_iteration: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_earlier_messages: int | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A request's options. For each that it leaves out, the agent's setting holds.

    `tool_choice` is about the request's own tools: which of them the first answer has to call, or that no answer of the
    run may call one. `instructions` are shown to the model like a client's system message. `tools` are the backend
    tools that the model may call, by name; None: all. `detached`: the run goes on when nobody watches it. `model`: the
    id of the model that answers in place of the agent's; one that the agent does not allow is ignored. `system_prompt`
    takes the place of the agent's, if it is not empty; the agent's owner alone may set it.
    """

    generation: GenerationOptions = NO_OPTIONS
    tool_choice: ToolChoice = "auto"
    instructions: str = ""
    tools: tuple[str, ...] | None = None
    limits: RequestedLimits = RequestedLimits()
    detached: bool = False
    on_concurrent_run: ConcurrentRuns | None = None
    model: str = ""
    system_prompt: str = ""

    @property
    def lockable(self) -> tuple[str, ...]:
        """The names, as in LOCKABLE, of the options that are set and can be locked."""
        said: list[str] = list(self.generation.named)
        said += [name for name in _LIMITS if getattr(self.limits, name) is not None]
        return (*said, *(name for name in _OTHERS if getattr(self, name) != getattr(NO_RUN_OPTIONS, name)))


NO_RUN_OPTIONS = RunOptions()
_LIMITS = tuple(field.name for field in fields(RequestedLimits))
_OTHERS = ("tool_choice", "tools", "detached", "on_concurrent_run")
LOCKABLE = frozenset(get_args(Lockable))


def without(options: RunOptions, names: frozenset[str]) -> RunOptions:
    """The options without these names of LOCKABLE."""
    kept = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in names}
    kept["generation"] = _but_for(options.generation, names)
    kept["limits"] = _but_for(options.limits, names)
    return RunOptions(**kept)


def _but_for(part: Any, names: frozenset[str]) -> Any:
    return type(part)(**{field.name: getattr(part, field.name) for field in fields(part) if field.name not in names})


# --- as JSON, for a run that another process continues ---------------------------------------------------------------


def options_record(options: RunOptions) -> JsonObject:
    """The options as JSON; `stored_options` reads it."""
    record = asdict(options)
    record["options"] = record.pop("generation")  # the member's name in records of earlier versions
    return cast(JsonObject, record)


def stored_options(record: JsonObject) -> RunOptions:
    """The options that `options_record` wrote."""
    stored: dict[str, Any] = {**record}
    generation, choice = {**stored.pop("options")}, stored["tool_choice"]
    if (stop := generation["stop"]) is not None:
        generation["stop"] = tuple(stop)
    if (form := generation["response_format"]) is not None:
        generation["response_format"] = JsonFormat(**form)
    return RunOptions(
        **{
            **stored,
            "generation": GenerationOptions(**generation),
            "tool_choice": OneTool(**choice) if isinstance(choice, dict) else choice,
            "tools": None if stored["tools"] is None else tuple(stored["tools"]),
            "limits": RequestedLimits(**stored["limits"]),
        }
    )
