"""The contract of models: one method, `stream`, and its request; and the `ModelProvider` part.

Below: messages, events, agent, http_client. A provider is one file in `models/` that turns a `ModelRequest` into its
wire's request, and the wire's bytes into canonical events through `answer_builder.AnswerBuilder`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from gateway.agent import ModelSettings
from gateway.clock import Clock
from gateway.commit_window import CommitWindow
from gateway.errors import ModelErrorKind
from gateway.events import Events
from gateway.frozen import quickly_made
from gateway.history.cache import SettledView
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, MediaBlock, Message, ToolSpec
from gateway.model_state import Continuation
from gateway.options.generation import NO_OPTIONS, FormatKind, GenerationOptions, ToolChoice
from gateway.traces import Span


@quickly_made
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    `messages` is a model view (history.model_view): system and developer messages in their places, user and assistant
    turns, every assistant turn with calls followed at once by one tool message per call, in call order; no result
    without a call, no call without a result, no incomplete call. `system` is the agent's own prompt with the context in
    it, or empty. `tool_choice` overrides the agent's parameters; a model that cannot be forced to call one certain tool
    is asked without it. `parameters` are the agent's `model_parameters`, unchanged. `continuation` says where a
    stateful model's server stands, and which messages are new to it; if the server has lost the conversation,
    `messages` are all of it. `settled` is the beginning of `messages` that the thread's next request will have too,
    unless the messages were shortened: compare before using it.

    `elsewhere`: messages of the thread's other conversations. No model sees them; a new message may not have their ids.

    `accepted` is the id of the response to this request, if the provider works on it already, because another process
    asked for it: the stream gives that response from its beginning. Closing the stream of a background response also
    stops the provider's work, unless `is_left` says that another process will continue it. `on_kept` gets the name of
    each response that the provider may keep, whatever becomes of it.

    `call_prefix`: the ids of the answer's calls are this prefix and a number, counted from `next_call`; empty: the
    provider's ids, or new ones.

    `max_answer_bytes` and `max_calls` bound the part of the answer that the model holds back; the loop counts the part
    that it gives. `trace` is the caller's span, or the span of the current try: its headers go to the provider.
    """

    turn_id: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parameters: JsonObject = field(default_factory=dict)
    options: GenerationOptions = NO_OPTIONS
    continuation: Continuation | None = None
    settled: SettledView | None = field(default=None, compare=False, repr=False)
    elsewhere: tuple[Message, ...] = ()
    accepted: str | None = None
    is_left: Callable[[], bool] = bool
    on_kept: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    max_answer_bytes: int | None = None
    max_calls: int | None = None
    call_prefix: str = ""
    next_call: int = 0
    trace: Span | None = field(default=None, compare=False, repr=False)


ForcedTool: TypeAlias = Literal["one", "any"]


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The options that a request can use with a model: names of GenerationOptions' fields, kinds of formats, and
    whether calls can be forced.

    `most_stops`: how many texts `stop` may have; None: any number. `formats_beside_tools`: a format is possible even if
    there are tools that the model may call.
    """

    names: frozenset[str] = frozenset()
    formats: frozenset[FormatKind] = frozenset()
    forced_tools: frozenset[ForcedTool] = frozenset()
    most_stops: int | None = None
    formats_beside_tools: bool = True


MediaRefusal: TypeAlias = Callable[[MediaBlock], str | None]


def _unknown(block: MediaBlock) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The input that a model accepts and the output that it gives, as far as its provider's file knows.

    `state_holder`: the model is stateful, and this names everything that a conversation is bound to (the provider, the
    model's family, the endpoint, ...); empty: it gets the whole conversation each time. `background`: its provider
    works on if the connection is lost, and its answers begin with ModelCallAccepted. `media_refusal` returns why the
    provider does not accept a user's medium, and which media it accepts; None if it accepts the medium, or nobody
    knows.
    """

    streaming: bool = True
    reasoning: bool = False
    parallel_calls: bool = True
    image_input: bool = False
    audio_input: bool = False
    video_input: bool = False
    document_input: bool = False
    image_output: bool = False
    audio_output: bool = False
    state_holder: str = ""
    background: bool = False
    options: AnswerOptions = AnswerOptions()
    media_refusal: MediaRefusal = field(default=_unknown, compare=False, repr=False)

    @property
    def is_stateful(self) -> bool:
        """Whether the provider's server keeps the conversation."""
        return bool(self.state_holder)


class Model(Protocol):
    """One model at one provider. It keeps no conversation: a request contains everything."""

    @property
    def provider(self) -> str:
        """As in `model_provider`: `bedrock/converse`."""

    @property
    def model_id(self) -> str: ...

    @property
    def capabilities(self) -> ModelCapabilities: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """One response as batches of canonical events, one batch per network read, none of them empty.

        These are TextStarted, TextDelta, TextEnded and the same of reasoning and tool calls, Raw, UsageReported and,
        last, ModelCallEnded; ModelCallAccepted comes first, if the provider works in the background. AnswerBuilder
        gives them in order, with their ids. RunStarted, ModelCallStarted, ToolReturned and the run's end come from
        others. Closing the generator closes the socket.

        Raises:
            ModelError: the provider failed, before or in the middle of the response; a stream that ends without its
                terminal frame is TRUNCATED, never a stop.
        """

    async def close(self) -> None:
        """Release the model's own resources; shared clients stay open."""


@runtime_checkable
class StatefulModel(Model, Protocol):
    """A model whose provider's server keeps responses (`capabilities.is_stateful`) and can delete them."""

    async def forget(self, response_id: str) -> None:
        """Have the provider delete a response; succeeds if the response does not exist.

        Raises:
            ModelError: the response may still be there.
        """


class Circuit(Protocol):
    """The state of one model at one address: whether calls skip the model for a while."""

    @property
    def is_open(self) -> bool:
        """Whether calls skip the model."""

    def lets_through(self, now: float) -> bool:
        """Whether a call may be made at `now` (monotonic seconds). An open circuit lets a call through now and then, as
        a test.
        """

    def failed(self, kind: ModelErrorKind, now: float) -> None:
        """Note a try that failed before anything of its answer was seen."""

    def answered(self) -> None:
        """Note that the model answered."""


NextTry: TypeAlias = Literal["again", "shortened", "elsewhere"]
"""The next try after a failed one: the same request, the same with a shorter conversation, or another model."""

OnRetry: TypeAlias = Callable[[str, str, NextTry], None]
"""Called for each failed try before the next one, with the provider and the error's code. The code is `circuit_open` if
the model was skipped.
"""


@quickly_made
@dataclass(frozen=True, slots=True)
class Alternative:
    """A model that is asked if those before it have failed, with parameters of its own."""

    model: Model
    parameters: JsonObject
    circuit: Circuit | None = None


@dataclass(frozen=True, slots=True)
class Fallback:
    """The models to ask in turn if an agent's own model has failed; `circuit` is the circuit of the own model."""

    others: tuple[Alternative, ...] = ()
    circuit: Circuit | None = None


NO_FALLBACK = Fallback()


@dataclass(frozen=True, slots=True)
class ModelEnvironment:
    """The process's resources for models."""

    clock: Clock
    http: HttpClients
    window: CommitWindow | None = None  # events wait in it for a commit; None: they do not wait
    own_identity: bool = True  # whether a model may act as the process: by an AWS role, a profile, a variable


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """A part: opens the models of one `model_provider`.

    `open` does no I/O; it raises ConfigurationError for settings that can never work. `credentials` (the known names),
    `needs_model_id` and `options` (the supported settings, of those that not all providers have) let `config check`
    report errors early.

    `from_callers`: agents that callers make may have such models too. `endpoints` are the provider's own hosts, as
    patterns (see http_client.endpoint_policy): these agents reach them if the operator names no others.
    """

    name: str
    open: Callable[[ModelSettings, ModelEnvironment], Model]
    credentials: frozenset[str] = frozenset()
    needs_model_id: bool = True
    options: frozenset[str] = frozenset()
    from_callers: bool = False
    endpoints: tuple[str, ...] = ()
