"""An agent's definition, which an operator writes, and the input of a run, which a caller sends.

Below: messages. Every protocol parses its own request into one `AgentInput`; later code does not know which protocol it
was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from gateway.errors import FieldProblem
from gateway.frozen import quickly_made, replace
from gateway.history.cache import HistoryCache
from gateway.history.context_limits import NO_LIMITS, HistoryLimits
from gateway.messages import ContentBlock, JsonObject, JsonValue, Message, TextBlock, ToolSpec, new_message_id
from gateway.options.generation import NO_OPTIONS, GenerationOptions
from gateway.options.run_options import ConcurrentRuns, RunOptions
from gateway.owners import is_visitors

ClientVoice: TypeAlias = Literal["system", "user", "ignore"]
Approval: TypeAlias = Literal["never", "always"]
Approvers: TypeAlias = Literal["callers", "keys"]
HistoryMode: TypeAlias = Literal["replace", "append", "by_id"]
LastIteration: TypeAlias = Literal["answer", "stop", "summarize"]
Recognition: TypeAlias = Callable[[Sequence[Message], tuple[Message, ...]], tuple[Message, ...]]
"""A function of a thread's messages and the messages that a client sent. It returns the sent messages, with the
thread's own in place of their copies, and with the thread's messages that the client was never shown.

It is pure, and may be called several times. A GatewayError that it raises refuses the request.
"""


class Secret(str):
    """Text that prints as `***`: for keys and tokens, so that no log or repr shows them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __str__(self) -> str:
        return "***"

    def reveal(self) -> str:
        """The text itself, for the code that sends it."""
        return str.__str__(self)


@dataclass(frozen=True, slots=True)
class ModelTimeouts:
    """How long a model may keep a call waiting, in seconds.

    `first_byte`: from the call to the response's headers, connecting included; `idle`: between two reads of the
    response; `total`: the whole call, None for no limit.
    """

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0
    idle_seconds: float = 120.0
    total_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model of an agent. `endpoint` is a base URL, None for the provider's own.

    `params` are put into every request last and unchanged; `headers` are sent with each, in place of the gateway's own
    of that name. `compute_environment` names where a stateful model runs. `stateful`: the provider's server keeps the
    conversation; `background`: it works on if the connection is lost. `fallback` models are asked in turn if this one
    has failed before anything of its answer was seen; they have no fallback of their own, and get the whole
    conversation each time.
    """

    model_provider: str
    model_id: str = ""
    endpoint: str | None = None
    credential: Mapping[str, Secret] = field(default_factory=dict)
    region: str | None = None
    model_parameters: JsonObject = field(default_factory=dict)
    options: GenerationOptions = NO_OPTIONS
    params: JsonObject = field(default_factory=dict)
    headers: Mapping[str, Secret] = field(default_factory=dict)
    compute_environment: str | None = None
    stateful: bool = False
    background: bool = False
    timeouts: ModelTimeouts = ModelTimeouts()
    fallback: tuple[ModelSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """One entry of an agent's `tools`: the tool type's name and its configuration. `idempotent`: a call that is carried
    out twice has the effect of one.
    """

    type: str
    name: str | None = None
    description: str | None = None
    parameters: JsonObject = field(default_factory=dict)
    approval: Approval = "never"
    approvers: Approvers | None = None
    expose_errors: bool = False
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of one run. None: no limit.

    `on_max_iteration`: the next step if the last of `max_iteration` model calls still calls tools. `answer`: one more
    model call, which has to answer without tools; `stop`: nothing, the run ends as incomplete (`max_iterations`);
    `summarize`: one more model call without tools, which summarises the steps. With `summarize`, a round of tool calls
    counts as an iteration, too: 10 are 5 model calls with their tools, and the summary.
    """

    max_iteration: int = 10
    on_max_iteration: LastIteration = "answer"
    max_tool_calls: int = 50
    max_parallel_tools: int = 8
    max_run_seconds: float | None = 600.0
    max_total_tokens: int | None = None
    max_answer_bytes: int = 4 * 1024 * 1024
    max_run_bytes: int = 16 * 1024 * 1024
    max_calls_per_answer: int = 128
    tool_timeout_seconds: float = 30.0
    approval_timeout_seconds: float = 900.0
    max_repeated_calls: int = 3
    model_attempts: int = 3


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How much of a thread a model is shown; the thread keeps everything.

    `limits` hold for every request. `summarize`: if cutting tool results is not enough for a conversation that is too
    long, its model summarises it. `written`: the names of the settings that the operator set.
    """

    limits: HistoryLimits = NO_LIMITS
    summarize: bool = True
    written: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class ClientInstructions:
    """How a model is shown callers' system and developer messages, their context and the shared state.

    `system`: as the operator's words; `user`: in front of the user's words, as the client's; `ignore`: not at all.
    Tools get the state in any case.
    """

    keys: ClientVoice = "system"
    visitors: ClientVoice = "user"

    def voice(self, owner: str) -> ClientVoice:
        """The setting for threads of that owner."""
        return self.visitors if is_visitors(owner) else self.keys


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent as its operator wrote it. `locked`: the options that callers may not set for their runs
    (options.LOCKABLE). `allow_models`: ids of further models of its model's provider that a request may ask for.
    `usage_event`: a Custom event before a run's end lists the tokens of each model call. `protocol_settings`: its
    settings for single protocols, in the protocols' own form, by the member's name (WireProtocol.agent_settings).
    """

    id: str
    name: str
    type: str
    model: ModelSettings
    description: str = ""
    system_prompt: str = ""
    tools: tuple[ToolSettings, ...] = ()
    on_disconnect: Literal["cancel", "continue"] = "cancel"
    on_takeover: Literal["end", "continue"] = "end"
    on_concurrent_run: ConcurrentRuns = "reject"
    history: HistoryMode = "replace"
    budgets: Budgets = Budgets()
    context: ContextSettings = ContextSettings()
    client_instructions: ClientInstructions = ClientInstructions()
    locked: frozenset[str] = frozenset()
    usage_event: bool = False
    protocol_settings: Mapping[str, object] = field(default_factory=dict)
    allow_models: tuple[str, ...] = ()

    def allows_model(self, model_id: str) -> bool:
        """Whether a request may ask for the model of that id, which may be the agent's own."""
        return model_id == self.model.model_id or model_id in self.allow_models

    def with_model(self, model_id: str) -> AgentDefinition:
        """The agent with another model of the same provider; its settings stay the same."""
        return replace(self, model=replace(self.model, model_id=model_id))


@quickly_made
@dataclass(frozen=True, slots=True)
class ContextEntry:
    """Information from the application for the model."""

    description: str
    value: str


class Absent:
    """The type of `ABSENT`: a state that was not sent, which is not the same as null."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """A person's answer in the form of the protocol that it came by.

    `payload` identifies a repeated request, and counts towards limits. `misfit` is the error message if the answer does
    not fit its interrupt, `arguments_pointer` the place of its arguments. `problems` are errors of its form: they count
    only if its interrupt is open.
    """

    payload: JsonValue | Absent = ABSENT
    misfit: str = "an answer does not fit its interrupt"
    arguments_pointer: str = field(default="/arguments", compare=False)
    problems: tuple[FieldProblem, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class InterruptAnswer:
    """A person's answer to an interrupt: a call is `approved` or denied; `cancelled` without a decision denies it, too.

    An approved call runs with `arguments`, or with the model's own if they are None. `reason` is for the model.
    `approval_id` (OpenInterrupt's) is set if the answer came by that id, with a key that may approve.
    """

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    approved: bool = False
    arguments: JsonObject | None = None
    reason: str | None = None
    approval_id: str = ""
    sent: SentAnswer = SentAnswer()

    @property
    def payload(self) -> JsonValue:
        """The answer in the form in which it was sent."""
        if isinstance(self.sent.payload, Absent):
            return {"approved": self.approved, "arguments": self.arguments, "reason": self.reason}
        return self.sent.payload


@dataclass(frozen=True, slots=True)
class InputNames:
    """A protocol's names for fields of its input, for messages."""

    run_id: str = "run_id"
    parent_run_id: str = "parent_run_id"
    forwarded: str = "forwarded"
    answers: str = "answers"
    instructions: str = "instructions"
    response_format: str = "response_format"
    stop: str = "stop"
    tool_choice: str = "tool_choice"
    selected_tools: str = "selected_tools"


@dataclass(frozen=True, slots=True)
class ThreadPoint:
    """A place in a version of a thread: after its first `length` messages. `last_message_id` is the last of these, by
    whose id the place is found; None: it is found by `length`.
    """

    thread_id: str
    version: int
    length: int
    last_message_id: str | None = None


WITHDRAWS: Final = "withdraws"
"""A member of `InputOrigin.request`: the ids of interrupts that the run withdraws. If it is cancelled or fails, even
while it waits for its thread, nobody can answer them any more.
"""


@quickly_made
@dataclass(frozen=True, slots=True)
class InputThread:
    """The thread that an input is for, and how it begins where it does not exist yet.

    `conversation_id` names the conversation that a stateful model's server keeps. `short_lived`: a thread that the
    input begins is hidden, and is deleted with its logs an hour after its last run, or a day where that waits for
    somebody; `forgets_pauses`: an hour there too. `collection`: for a thread that is in none, in place of the agent's.
    `begins_from`: a thread that the input begins goes on from there, as a fork of that thread does.
    """

    id: str
    conversation_id: str = "default"
    short_lived: bool = False
    forgets_pauses: bool = False
    collection: str = field(default="", compare=False)
    begins_from: ThreadPoint | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class SentMessages:
    """The messages that a client sent, and how they are meant.

    `messages` is the whole history (`history="replace"`), or only what is new (`"append"`), or the whole one where it
    begins with the thread's first message (`"by_id"`); None leaves it to the agent. Messages without an id have been
    given one; `minted_ids` lists those, because a repeated request cannot repeat them. `seen` is the id of the thread's
    last message that the client knows, None if it knows none, ABSENT if it does not say. `recognition` is for a client
    that sends its history without the thread's ids; messages that it does not recognise are new. `history_cache` is the
    cache of the thread's last request; it changes no result.
    """

    messages: tuple[Message, ...] = ()
    history: HistoryMode | None = None
    minted_ids: frozenset[str] = frozenset()
    seen: str | Absent | None = ABSENT
    recognition: Recognition | None = field(default=None, compare=False, repr=False)
    history_cache: HistoryCache | None = field(default=None, compare=False, repr=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class ClientApplication:
    """What the client's application gives to the run: the tools that it runs itself, information for the model, the
    state that it shares with the agent, and properties that are `forwarded` to tools.
    """

    tools: tuple[ToolSpec, ...] = ()
    context: tuple[ContextEntry, ...] = ()
    state: JsonValue | Absent = ABSENT
    forwarded: JsonValue = None


@quickly_made
@dataclass(frozen=True, slots=True)
class InputTerms:
    """How a request wants its run done.

    `forced_tool` is one of the application's tools, which the model's first answer must call; empty: one that is not
    forced. `unattended`: the run needs no viewers. `must_answer`: the input only carries `answers`, and begins nothing
    if none of their interrupts is open. `names_calls`: the ids of the calls of the run's models lead back to the run
    (`AgentInput.call_prefix`). `calls_as_written`: the client is shown its calls as the model writes them, so none of
    them is asked for again, whatever its arguments.
    """

    options: RunOptions | None = None
    forced_tool: str | None = None
    unattended: bool = False
    must_answer: bool = False
    names_calls: bool = False
    calls_as_written: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class InputOrigin:
    """The request that an input came by.

    `protocol` is the name of its protocol. `request` has the facts about the request that this protocol needs later,
    and `WITHDRAWS`. The run's record keeps both. `request_id` identifies the request in the log. `names` are the
    protocol's names for the fields of the input.
    """

    protocol: str = ""
    request: JsonObject | None = None
    request_id: str = ""
    names: InputNames = InputNames()


@quickly_made
@dataclass(frozen=True, slots=True)
class AgentInput:
    """One run's input. `answers` are a person's answers to interrupts of the thread."""

    run_id: str
    thread: InputThread
    sent: SentMessages = SentMessages()
    answers: tuple[InterruptAnswer, ...] = ()
    application: ClientApplication = ClientApplication()
    terms: InputTerms = InputTerms()
    origin: InputOrigin = field(default=InputOrigin(), compare=False, repr=False)
    parent_run_id: str | None = None

    @property
    def call_prefix(self) -> str:
        """How the ids of the run's calls begin; their numbers follow, from 0. Empty: they have other ids."""
        return f"call_{self.run_id}_" if self.terms.names_calls else ""


def text_input(text: str, *, thread_id: str, run_id: str) -> AgentInput:
    """A plain-text input: one new user message."""
    return blocks_input((TextBlock(text),), thread_id=thread_id, run_id=run_id)


def blocks_input(blocks: tuple[ContentBlock, ...], *, thread_id: str, run_id: str) -> AgentInput:
    """The content-block form of an input: one new user message of text and media."""
    message = Message(new_message_id(), "user", blocks)
    sent = SentMessages((message,), history="append", minted_ids=frozenset({message.id}))
    return AgentInput(run_id, InputThread(thread_id), sent)
