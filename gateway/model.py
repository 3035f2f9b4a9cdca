"""What a model is: one method, `stream`; what it is asked; and the `ModelProvider` part.

Below: messages, events, agent, http_client. A provider is one file in `models/` that turns a `ModelRequest` into its
own wire's request and the wire's bytes into canonical events through `answer_builder.AnswerBuilder`.
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
from gateway.messages import JsonObject, Message, ToolSpec
from gateway.model_state import Continuation
from gateway.traces import Span
from gateway.wishes.generation import NO_OPTIONS, FormatKind, GenerationOptions, ToolChoice


@quickly_made
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model.

    `messages` is a model view (history.model_view): system and developer messages where they stand, user and assistant
    turns, every assistant turn with calls followed at once by one tool message per call, in call order; nothing
    orphaned, nothing unanswered, no incomplete call. `system` is the agent's own prompt with the context in it, or
    empty. `tool_choice` outranks the agent's parameters; a model that cannot be told to call one certain tool is asked
    without. `parameters` are the agent's `model_parameters`, passed on as they are but for what `options` say. And
    `continuation` is where a stateful model's server already stands, and which of the messages are new to it; where it
    does not stand there any more, `messages` are all there is to say. `settled` is the beginning of `messages` that the
    thread's next request will have too, as long as nobody shortened these: whoever uses it has to look.

    No model is shown `elsewhere`: what was said in the thread's other conversations, whose ids are taken all the same.

    `accepted` is the response that answers this, where its provider was at work on it already when another process was
    asked: it is given from its beginning. Whoever stops listening to a response in the background stops the provider's
    work too, unless `is_left` says that somebody will take it up again. `on_kept` is told the name of each response
    that the provider may keep, whatever became of it.

    `max_answer_bytes` and `max_calls` bound what is held of the answer before anything of it is given; what is given
    the loop counts. `trace` is the span of whoever asks, or of the try under way: its headers go to the provider.
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
    trace: Span | None = field(default=None, compare=False, repr=False)


ForcedTool: TypeAlias = Literal["one", "any"]


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a request can ask of a model: names of GenerationOptions, kinds of formats, calls that have to be made.

    `most_stops`: how many texts `stop` may have; None: any number.
    """

    names: frozenset[str] = frozenset()
    formats: frozenset[FormatKind] = frozenset()
    forced_tools: frozenset[ForcedTool] = frozenset()
    most_stops: int | None = None


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What a model takes and gives, as far as its provider's file knows.

    `state_holder`: the model is stateful, and this names everything that a conversation cannot be taken away from (the
    provider, the model's family, the endpoint, ...); empty: it is told everything each time. `background`: its provider
    works on when nobody listens, and its answers begin with ModelCallAccepted. `options`: what else a request may say.
    """

    streaming: bool = True
    reasoning: bool = False
    parallel_calls: bool = True
    image_input: bool = False
    audio_input: bool = False
    video_input: bool = False
    document_input: bool = False
    state_holder: str = ""
    background: bool = False
    options: AnswerOptions = AnswerOptions()

    @property
    def is_stateful(self) -> bool:
        """Whether the provider's server keeps the conversation."""
        return bool(self.state_holder)


class Model(Protocol):
    """One model at one provider. Holds no conversation: everything it is asked is in the request."""

    @property
    def provider(self) -> str:
        """As in `model_provider`: `bedrock/converse`."""

    @property
    def model_id(self) -> str: ...

    @property
    def capabilities(self) -> ModelCapabilities: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """One response as batches of canonical events, one batch per network read, none of them empty.

        The last event is ModelCallEnded; UsageReported comes before it. Closing the generator closes the socket.

        Raises:
            ModelError: the provider failed, before or in the middle of the response; a stream that ends without its
                terminal frame is TRUNCATED, never a stop.
        """

    async def close(self) -> None:
        """Let go of what is the model's own; shared clients are not."""


@runtime_checkable
class StatefulModel(Model, Protocol):
    """A model whose provider's server keeps responses (`capabilities.is_stateful`), and lets go of them when asked."""

    async def forget(self, response_id: str) -> None:
        """Have the provider delete a response; done, too, where there is none of that name.

        Raises:
            ModelError: it is still there, as far as is known.
        """


class Circuit(Protocol):
    """What is known of one model at one address: whether it is to be left alone for a while."""

    @property
    def is_open(self) -> bool:
        """Whether it is left alone."""

    def lets_through(self, now: float) -> bool:
        """Whether a call may go there at `now` (monotonic seconds); where the circuit is open, one that looks."""

    def failed(self, kind: ModelErrorKind, now: float) -> None:
        """A try failed before anything of an answer was seen."""

    def answered(self) -> None:
        """There is somebody."""


NextTry: TypeAlias = Literal["again", "shortened", "elsewhere"]
"""What follows a try that failed: the same again, the same with a shorter conversation, another model."""

OnRetry: TypeAlias = Callable[[str, str, NextTry], None]
"""Told the provider and the error's code of each try that failed and is followed by another; `circuit_open` where it
was not even made.
"""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A model that is asked once those before it have failed, with parameters of its own."""

    model: Model
    parameters: JsonObject
    circuit: Circuit | None = None


@dataclass(frozen=True, slots=True)
class Fallback:
    """Who is asked where an agent's own model has failed, in turn; `circuit` is that of the agent's own."""

    others: tuple[Alternative, ...] = ()
    circuit: Circuit | None = None


NO_FALLBACK = Fallback()


@dataclass(frozen=True, slots=True)
class ModelEnvironment:
    """What models may use of the process."""

    clock: Clock
    http: HttpClients
    window: CommitWindow | None = None  # in which events wait to be kept; None: nobody keeps them
    own_identity: bool = True  # whether a model may act as the process: by an AWS role, a profile, a variable


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """A part: how the models of one `model_provider` are opened.

    `open` does no I/O; it raises ConfigurationError for settings that can never work. `credentials` (the names it
    knows), `needs_model_id` and `options` (the settings it heeds of those that not all providers have) let
    `config check` say so early.

    `from_callers`: agents that callers make may have such models too. `endpoints` are the provider's own hosts, as
    patterns (see http_client.endpoint_policy): these agents reach them where the operator names no others.
    """

    name: str
    open: Callable[[ModelSettings, ModelEnvironment], Model]
    credentials: frozenset[str] = frozenset()
    needs_model_id: bool = True
    options: frozenset[str] = frozenset()
    from_callers: bool = False
    endpoints: tuple[str, ...] = ()
