"""A model that plays a script: for tests, benchmarks and trying a front end against exactly known answers.

The script stands in the agent's `model_parameters`:

    model_provider: scripted
    model_parameters:
      responses:                        # the first is the answer to a user message, the second to its tool results, ...
        - [{reasoning: "Sums need the tool."}, {tool: add, arguments: {a: 2, b: 3}}]
        - [{text: "It is 5.", chunk_characters: 2}, {usage: {input_tokens: 12, output_tokens: 4}}]
      rules:                            # tried first, in order
        - when: {last_user_contains: refund}      # also: after_tool, system_contains, turn, tool_choice
          response: [{text: "No refunds."}, {stop: refusal}]
      switch_every_delta: true # each delta is a batch of its own, after a switch to the other tasks

A step is one of `text` (with `refusal: true` for a refusal), `reasoning` (with `signature`), `tool` (with `arguments`:
an object or raw text; `id`), `medium` (base64; with `media_type`), `retract` (all output of the response so far is
taken back, and this text replaces it), `usage`, `stop` (with `raw`), `delay_seconds`, `hang`, `error` (a
ModelErrorKind; with `message`, `retry_after_seconds`, and `times` to fail only so many requests), `crash` (an
unexpected error) and `raw_event`. `chunk_characters`, `repeat` and `delta_seconds` say how text and arguments are
streamed; the first and the last also for the whole script. `{{user}}` and `{{result}}` in a text stand for the last
user message and the last tool result.

The request alone decides which response is played. Only the count of `times` is kept between requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain
from itertools import repeat as repeat_object
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gateway.agent import ModelSettings
from gateway.clock import Clock
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events, StopReason, Usage
from gateway.messages import JsonObject, Message, TextBlock
from gateway.model import AnswerOptions, ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.options.generation import OPTION_NAMES, OneTool
from gateway.providers.answer_builder import AnswerBuilder

NAME = "scripted"

_KINDS = (
    "text", "reasoning", "tool", "medium", "retract", "usage", "stop", "delay_seconds", "hang", "error", "crash",
    "raw_event",
)  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UsageStep(_Part):
    """As events.Usage; None: not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class Step(_Part):
    """One step of a script. Exactly one of the kinds is given."""

    text: str | None = None
    refusal: bool = False
    reasoning: str | None = None
    signature: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None
    medium: str | None = None
    media_type: str = "image/png"
    retract: str | None = None
    usage: UsageStep | None = None
    stop: StopReason | None = None
    raw: str | None = None
    delay_seconds: float | None = Field(default=None, ge=0)
    hang: bool | None = None
    error: ModelErrorKind | None = None
    message: str = "the script says so"
    retry_after_seconds: float | None = None
    times: int | None = Field(default=None, ge=1)
    crash: str | None = None
    raw_event: Any = None
    chunk_characters: int | None = Field(default=None, ge=1)
    repeat: int = Field(default=1, ge=1)
    delta_seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _one_kind(self) -> Step:
        kinds = [kind for kind in _KINDS if kind in self.model_fields_set]
        if len(kinds) != 1:
            raise ValueError(
                f"a step has exactly one of {', '.join(_KINDS)}; this one has {', '.join(kinds) or 'none'}"
            )
        return self


class When(_Part):
    """When a rule's response is played: every given condition must hold.

    `turn` is 0 for the answer to a user message; `tool_choice` is `auto`, `none`, or the tool that has to be called.
    """

    last_user_contains: str | None = None
    after_tool: str | None = None
    system_contains: str | None = None
    turn: int | None = None
    tool_choice: str | None = None


class Rule(_Part):
    when: When
    response: tuple[Step, ...]


class Script(_Part):
    """A script, in the form of `model_parameters`."""

    responses: tuple[tuple[Step, ...], ...] = ()
    rules: tuple[Rule, ...] = ()
    chunk_characters: int | None = Field(default=None, ge=1)
    delta_seconds: float = Field(default=0, ge=0)
    switch_every_delta: bool = False


@dataclass(frozen=True, slots=True)
class _Scene:
    """The facts about a request that rules and texts use."""

    turn: int
    user: str
    result: str
    tools_answered: frozenset[str]


class ScriptedModel:
    """Plays one script."""

    provider = NAME
    capabilities = ModelCapabilities(
        reasoning=True,
        image_input=True,
        audio_input=True,
        video_input=True,
        document_input=True,
        # It accepts every option, and plays its script.
        options=AnswerOptions(
            frozenset(OPTION_NAMES), frozenset({"json_object", "json_schema"}), frozenset({"one", "any"})
        ),
    )

    def __init__(self, script: Script, clock: Clock, *, model_id: str = NAME) -> None:
        self.model_id = model_id
        self._script = script
        self._clock = clock
        self._failures: Counter[int] = Counter()  # how often each step with `times` has failed, by the step's identity

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says.

        Raises:
            ModelError: the script says so, or has no response for this request.
        """
        scene = _scene(request.messages)
        builder = AnswerBuilder(request, self.provider, self.model_id)
        stop: Step | None = None
        for position, step in enumerate(self._response(request, scene)):
            if step.stop is not None:
                stop = step
            elif step.medium is not None:
                builder.medium(position, step.media_type, step.medium)
            elif step.retract is not None:
                builder.retract(step.retract)
            elif step.usage is not None:
                builder.usage(Usage(self.provider, self.model_id, **step.usage.model_dump()))
            elif step.text is not None or step.reasoning is not None or step.tool is not None:
                switch, pause = self._script.switch_every_delta, self._pause(step)
                feed, chunks = _feed(step, position, builder, scene, self._script)
                for chunk in chunks:
                    if switch:
                        await asyncio.sleep(0)
                    if pause:
                        await self._clock.sleep(pause)
                    feed(position, chunk)
                    if pause or switch:
                        yield builder.take()
                if step.reasoning is not None and step.signature is not None:
                    builder.opaque(position, "signature", step.signature)
                builder.close(position)
            elif "raw_event" in step.model_fields_set:
                builder.raw(step.raw_event)
            else:
                if events := builder.take():  # output before a pause or a failure is sent before it
                    yield events
                await self._happen(step)
        builder.finish(stop.stop or StopReason.END_TURN if stop else StopReason.END_TURN, stop.raw if stop else None)
        yield builder.take()

    async def close(self) -> None:
        return None

    def _response(self, request: ModelRequest, scene: _Scene) -> Sequence[Step]:
        for rule in self._script.rules:
            if _applies(rule.when, request, scene):
                return rule.response
        if scene.turn < len(self._script.responses):
            return self._script.responses[scene.turn]
        raise ModelError(
            ModelErrorKind.INVALID,
            f"the script has {len(self._script.responses)} responses and no rule for response {scene.turn + 1}",
        )

    def _pause(self, step: Step) -> float:
        return self._script.delta_seconds if step.delta_seconds is None else step.delta_seconds

    async def _happen(self, step: Step) -> None:
        if step.delay_seconds is not None:
            await self._clock.sleep(step.delay_seconds)
        elif step.hang:
            await asyncio.get_running_loop().create_future()
        elif step.error is not None:
            self._fail(step, step.error)
        elif step.crash is not None:
            raise RuntimeError(step.crash)

    def _fail(self, step: Step, kind: ModelErrorKind) -> None:
        if step.times is not None:
            self._failures[id(step)] += 1
            if self._failures[id(step)] > step.times:
                return
        raise ModelError(kind, step.message, retry_after_seconds=step.retry_after_seconds)


def _feed(
    step: Step, key: int, builder: AnswerBuilder, scene: _Scene, script: Script
) -> tuple[Callable[[int, str], None], Iterable[str]]:
    """A step's deltas, and the method that takes each of them. The first delta opens the block."""
    size = step.chunk_characters or script.chunk_characters
    if step.tool is not None:
        arguments = step.arguments if isinstance(step.arguments, str) else orjson.dumps(step.arguments).decode()
        builder.tool_started(key, step.id, step.tool)
        return builder.tool_arguments, _chunks(arguments, size, step.repeat)
    if step.text is not None:
        text = step.text.replace("{{user}}", scene.user).replace("{{result}}", scene.result)
        say = partial(builder.text, refusal=True) if step.refusal else builder.text  # a partial costs time
        return say, _chunks(text, size, step.repeat)
    return builder.reasoning, _chunks(step.reasoning or "", size, step.repeat)


def _chunks(text: str, size: int | None, repeat: int) -> Iterable[str]:
    chunks = [text[start : start + size] for start in range(0, len(text), size)] if size else [text] if text else []
    return chain.from_iterable(repeat_object(chunks, repeat))


def _scene(messages: Sequence[Message]) -> _Scene:
    """The state of the conversation: how many answers there are since the user's last message, and which tools ran."""
    names: dict[str, str] = {}
    answered: set[str] = set()
    turn, result = 0, ""
    # Results come right after their calls: nothing before the user's message counts.
    start = next((place for place in reversed(range(len(messages))) if messages[place].role == "user"), None)
    asked = None if start is None else messages[start]
    for message in messages[start:]:
        if message.role == "assistant":
            turn += 1
            names |= {call.call_id: call.name for call in message.tool_calls}
        elif (given := message.tool_result) is not None:
            result = "".join(block.text for block in given.content if isinstance(block, TextBlock))
            answered.add(names.get(given.call_id, ""))
    return _Scene(turn, "" if asked is None else asked.text, result, frozenset(answered))


def _applies(when: When, request: ModelRequest, scene: _Scene) -> bool:
    choice = request.tool_choice
    return (
        (when.last_user_contains is None or when.last_user_contains.lower() in scene.user.lower())
        and (when.after_tool is None or when.after_tool in scene.tools_answered)
        and (when.system_contains is None or when.system_contains in request.system)
        and (when.turn is None or when.turn == scene.turn)
        and (when.tool_choice is None or when.tool_choice == (choice.name if type(choice) is OneTool else choice))
    )


def parse_script(parameters: JsonObject) -> Script:
    """The script in an agent's `model_parameters`.

    Raises:
        ConfigurationError: it is not a script; the message says which field is wrong.
    """
    try:
        return Script.model_validate(parameters)
    except ValidationError as error:
        raise _refusal(error) from None


def open_scripted(settings: ModelSettings, environment: ModelEnvironment) -> ScriptedModel:
    """As model.ModelProvider says."""
    return ScriptedModel(parse_script(settings.model_parameters), environment.clock, model_id=settings.model_id or NAME)


_KEYS = sorted({name for kind in (Script, Rule, When, Step, UsageStep) for name in kind.model_fields})


def _refusal(error: ValidationError) -> ConfigurationError:
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"]) or "the script"
        match problem["type"]:
            case "extra_forbidden":
                near = get_close_matches(str(problem["loc"][-1]), _KEYS, n=1)
                problems.append(f"{where} is not a known key" + "".join(f"; did you mean {name!r}?" for name in near))
            case "missing":
                problems.append(f"{where} is missing; add it")
            case _:
                problems.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    return ConfigurationError(f"model_parameters of the scripted model: {'; '.join(problems)}")


PROVIDER = ModelProvider(NAME, open_scripted, needs_model_id=False)
