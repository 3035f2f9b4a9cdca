"""The sections of the configuration file: their fields and their limits.

Below: section, which all of them are; agent, access.limits. Above: reading, which fills the sections from a file;
checks, for conditions across fields; schema, the JSON Schema of them. Only the borders use pydantic.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from gateway.access.limits import KeyLimits, VisitorLimits
from gateway.agent import Budgets, ClientInstructions, HistoryMode, LastIteration, ModelTimeouts
from gateway.configuration.ml_commons_sections import MlCommonsSection
from gateway.configuration.section import Number, Seconds, Section, Whole, no_boolean
from gateway.messages import JsonObject, JsonValue
from gateway.options.run_options import Lockable
from gateway.search_engine import Identity, SearchSettings
from gateway.store import MOST_VERSIONS

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["auto", "json", "text"]

MINIMUM_KEY_LENGTH = 16
MOST_FALLBACKS = 8
"""Each of them may be tried several times, and a run waits all the while."""
_TIMEOUTS = ModelTimeouts()
_BUDGETS = Budgets()
_KEY_LIMITS = KeyLimits()
_VISITOR_LIMITS = VisitorLimits()
_CLIENT_INSTRUCTIONS = ClientInstructions()
_SEARCH = SearchSettings("")
INDEX_PATTERN = r"^[^\s\\/?\"<>|,#:%+_.A-Z-][^\s\\/?\"<>|,#:%A-Z]*$"
"""What OpenSearch allows in the name of an index, and `*`."""


def _of_any_length(schema: dict[str, JsonValue]) -> None:
    del schema["minLength"]  # a reference to a key may be shorter than a key


# the bounds stand before the validator, otherwise the JSON Schema lacks them
Days: TypeAlias = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False), BeforeValidator(no_boolean)] | None
Limit: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(no_boolean)] | None
Bytes: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000), BeforeValidator(no_boolean)] | None


StoredBytes: TypeAlias = Annotated[int, Field(ge=1, le=10**15), BeforeValidator(no_boolean)] | None


class KeyLimitsSection(Section):
    """Limits of a key; null: no limit. Each process counts for itself."""

    runs_per_minute: Limit = _KEY_LIMITS.runs_per_minute
    """Runs that begin within any minute."""
    concurrent_runs: Limit = _KEY_LIMITS.concurrent_runs
    """Runs under way or waiting at one time."""
    max_body_bytes: Bytes = _KEY_LIMITS.max_body_bytes
    """The largest request body, where that is less than server.max_body_bytes."""
    max_message_bytes: Bytes = _KEY_LIMITS.max_message_bytes
    """The most text of one thing that is new: a message, a tool with its schema, an entry of context, the state."""
    max_input_bytes: Bytes = _KEY_LIMITS.max_input_bytes
    """The most text of all that is new in one request. What the thread has already does not count."""


class VisitorLimitsSection(Section):
    """Limits of a publishable key's visitors; null: no limit. Each process counts for itself."""

    runs_per_minute: Limit = _VISITOR_LIMITS.runs_per_minute
    """Runs of all visitors together that begin within any minute."""
    concurrent_runs: Limit = _VISITOR_LIMITS.concurrent_runs
    """Runs of all visitors together at one time."""
    visitor_runs_per_minute: Limit = _VISITOR_LIMITS.visitor_runs_per_minute
    """Runs of one visitor that begin within any minute."""
    visitor_concurrent_runs: Limit = _VISITOR_LIMITS.visitor_concurrent_runs
    """Runs of one visitor at one time."""
    address_runs_per_minute: Limit = _VISITOR_LIMITS.address_runs_per_minute
    """Runs from one client address that begin within any minute, whoever the visitors are."""
    visitors_per_minute: Limit = _VISITOR_LIMITS.visitors_per_minute
    """New visitors within any minute."""
    address_visitors_per_minute: Limit = _VISITOR_LIMITS.address_visitors_per_minute
    """Visitors' tokens that one client address gets within any minute."""
    max_body_bytes: Bytes = _VISITOR_LIMITS.max_body_bytes
    """The largest request body: it holds the whole conversation, and pictures."""
    max_message_bytes: Bytes = _VISITOR_LIMITS.max_message_bytes
    """The most text of one thing that is new: a message, a tool with its schema, an entry of context, the state."""
    max_input_bytes: Bytes = _VISITOR_LIMITS.max_input_bytes
    """The most text of all that is new in one request. What the thread has already does not count."""
    max_stored_bytes: StoredBytes = _VISITOR_LIMITS.max_stored_bytes
    """What all visitors together may have in the store: messages, states and logs. Then new runs are answered 429."""


class ProtocolsSection(Section):
    """Settings of protocols, by their names; false turns one off."""

    # the fields are those of the protocols there are, see protocol_sections


class ApiKeySection(Section):
    """A key that a client sends as `Authorization: Bearer <key>`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")
    """The name of whoever has the key. Threads and runs belong to it, so two keys never share one."""
    key: str = Field(
        min_length=MINIMUM_KEY_LENGTH,
        max_length=512,
        pattern=r"^[\x21-\x7e]+$",
        json_schema_extra=_of_any_length,
    )
    """The key itself, best as '${env:NAME}' or '${file:/path}'."""
    limits: KeyLimitsSection = KeyLimitsSection()
    """Limits of what is done with the key."""
    approvals: bool = False
    """Allow it to see (GET /approvals) and answer (POST /approvals/{id}) the open approvals of all conversations,
    whoever owns them.
    """
    admin: bool = False
    """Allow it to change settings of the whole gateway (PUT /_cluster/settings)."""
    protocols: ProtocolsSection = ProtocolsSection()
    """Settings of protocols for this key, in place of the file's own; false: this key may not use it."""


class PublishableKeySection(Section):
    """A key that may stand in a website's HTML: for the site's visitors, each of whom has threads of their own."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """The website's name, for metrics and logs. Visitors belong to it, so no other key has the same name."""
    key: str = Field(
        min_length=MINIMUM_KEY_LENGTH,
        max_length=512,
        pattern=r"^[\x21-\x7e]+$",
        json_schema_extra=_of_any_length,
    )
    """The key itself; it begins with 'pk_'. Everybody sees it."""
    origins: tuple[str, ...] = Field(min_length=1)
    """The origins, exactly as browsers send them, whose pages may use the key: 'https://shop.example'."""
    agents: tuple[str, ...] = Field(min_length=1)
    """The ids of the agents that visitors may use."""
    limits: VisitorLimitsSection = VisitorLimitsSection()
    """Limits of the visitors: together, each, and from one address."""


class ServerSection(Section):
    """How the gateway listens and how it treats its clients."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    """The address to listen on. Any other than a loopback one needs keys, or allow_unauthenticated."""
    port: Whole = Field(default=8000, ge=0, le=65535)
    """The port to listen on; 0 takes a free one."""
    public_url: str | None = Field(default=None, max_length=2048)
    """The address under which clients reach the gateway, where a proxy stands before it: 'https://agents.example'.
    It needs keys, or allow_unauthenticated."""
    default_agent: str | None = None
    """The id of the agent for requests that name none, such as POST /process. Absent or null: the first agent of the
    file that the caller may use."""
    cors_origins: tuple[str, ...] = ()
    """The origins, exactly as browsers send them, whose pages may use the gateway: 'https://app.example'."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names (without port) under which the gateway answers, besides loopback names and addresses."""
    api_keys: tuple[ApiKeySection, ...] = ()
    """With any key here, everything but health and the page needs one."""
    publishable_keys: tuple[PublishableKeySection, ...] = ()
    """Keys for the visitors of websites. With any key here, everybody else needs one of api_keys."""
    visitor_secret: str | None = Field(default=None, max_length=512)
    """The secret that signs visitors' tokens, best as '${env:NAME}'; if absent, the store keeps a generated one."""
    master_keys: tuple[str, ...] = ()
    """The keys that seal the secrets in stored documents: 32 bytes in base64 each, best as '${env:NAME}'. The first one
    seals, all open. If absent, a generated one is kept in a file beside the store; a store without a file keeps no
    secrets then."""
    visitor_token_days: Seconds = Field(default=90.0, ge=0.01, le=3650)
    """How long a visitor's token is valid. It can be renewed for the same visitor until 30 days later."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed; one on this
    machine too is only believed where it is named: ['127.0.0.1']. They need keys, or allow_unauthenticated."""
    allow_unauthenticated: bool = False
    """Start without keys although other machines reach the gateway: anybody who does can use every agent."""
    allowed_private_hosts: tuple[str, ...] = ()
    """Hosts in private networks from which media that messages name may be fetched, and to which push notifications may
    be posted; all others must be public."""
    environment_proxies: bool = False
    """Reach model endpoints through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name."""
    disconnect_grace_seconds: Seconds = Field(default=15.0, ge=0, le=86_400)
    """How long a run under 'on_disconnect: cancel' waits for a viewer to come back."""
    heartbeat_seconds: Annotated[Seconds, Field(ge=0.1, le=3600)] | None = 15.0
    """The silence after which a stream gets a comment, so that proxies keep it open. null: no comments at all, for
    clients that cannot read them."""
    drain_seconds: Seconds = Field(default=20.0, ge=0, le=86_400)
    """How long runs may go on after SIGTERM before they are cancelled."""
    max_body_bytes: Whole = Field(default=10_000_000, ge=1000, le=1_000_000_000)
    """The largest request body, also once it is unpacked."""
    max_body_seconds: Seconds = Field(default=120.0, ge=1, le=86_400)
    """How long a request's body may take to arrive; after that, or a pause of 30 seconds, it is a 408."""
    max_unread_bytes: Whole = Field(default=32_000_000, ge=262_144, le=10_000_000_000)
    """How many bytes of answers to one caller's GETs may wait to be read; a further large one is a 429."""
    max_concurrent_runs: Limit = None
    """How many runs there may be at one time, under way or waiting; more are answered 503. null: no limit."""
    max_waiting_runs: Whole = Field(default=8, ge=1, le=1000)
    """How many runs may wait for one thread under 'on_concurrent_run: enqueue'."""
    max_versions: Whole = Field(default=50, ge=2, le=MOST_VERSIONS)
    """How many versions of a thread are kept; with one more, the oldest that is not the current one is deleted."""
    max_viewer_events: Whole = Field(default=10_000, ge=100, le=10_000_000)
    """How many events a viewer may fall behind before it is dropped; it resumes from the log."""
    retention_days: Seconds = Field(default=30.0, gt=0, le=36_500)
    """How long the logs of finished runs are kept."""
    visitor_retention_days: Days = 30.0
    """How long a visitor's thread is kept after its last run, then it is deleted; null: until somebody deletes it."""
    log_level: LogLevel = "info"
    """The least level that is logged."""
    log_format: LogFormat = "auto"
    """'json': a JSON object per line; 'text': for people; 'auto': text on a terminal, json elsewhere."""


class TimeoutsSection(Section):
    """How long a model may keep a call waiting before the call fails; it may be tried again."""

    connect_seconds: Seconds = Field(default=_TIMEOUTS.connect_seconds, gt=0, le=86_400)
    """Seconds to be connected."""
    first_byte_seconds: Seconds = Field(default=_TIMEOUTS.first_byte_seconds, gt=0, le=86_400)
    """Seconds from the call to the beginning of the answer, connecting included."""
    idle_seconds: Seconds = Field(default=_TIMEOUTS.idle_seconds, gt=0, le=86_400)
    """Seconds of silence within the answer."""
    total_seconds: Seconds | None = Field(default=_TIMEOUTS.total_seconds, gt=0, le=86_400)
    """Seconds for the whole call; null: no limit."""


class OptionsSection(Section):
    """How a model answers, in words that mean the same with every provider; what a model does not know is not sent."""

    temperature: Number | None = Field(default=None, ge=0, le=2)
    """0 is the most predictable. A provider whose scale ends at 1 is sent 1 at the most."""
    top_p: Number | None = Field(default=None, ge=0, le=1)
    """Each word is drawn from the likeliest ones, whose probabilities add up to this share."""
    top_k: Whole | None = Field(default=None, ge=1)
    """Each word is drawn from this many of the likeliest ones."""
    max_tokens: Whole | None = Field(default=None, ge=1, le=2**31 - 1)
    """The most tokens of one answer. Of several limits the smallest counts."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """Texts at which an answer ends."""
    seed: Whole | None = None
    """A number that makes an answer repeatable, as far as the provider can."""
    presence_penalty: Number | None = Field(default=None, ge=-2, le=2)
    """Above 0: new subjects are likelier."""
    frequency_penalty: Number | None = Field(default=None, ge=-2, le=2)
    """Above 0: repetitions are less likely."""


class FallbackSection(Section):
    """A model, and how it is reached."""

    model_provider: str
    """The API by which the model is asked: 'openai/v1/chat/completions', 'bedrock/converse', 'demo', ..., or 'bedrock'
    with an api."""
    api: str | None = None
    """Which API of the provider to use, where its name leaves that open: 'converse' or 'responses' of 'bedrock'."""
    model_id: str = ""
    """The provider's name for the model."""
    endpoint: str | None = None
    """The base URL, where it is not the provider's own: 'http://127.0.0.1:11434/v1'."""
    credential: dict[str, str] | None = None
    """Keys and tokens by the provider's names for them, best as '${env:NAME}' or '${file:/path}'."""
    region: str | None = None
    """The cloud region, where the provider has regions."""
    model_parameters: JsonObject | None = None
    """Parameters that every request to the provider has, in the provider's own words: temperature, max_tokens, ..."""
    params: JsonObject | None = None
    """Members of every request's body, which replace those that the gateway writes (Responses)."""
    headers: dict[str, str] | None = None
    """Headers of every request to the provider. They replace the gateway's own of the same name."""
    compute_environment: str | None = Field(default=None, min_length=1)
    """The compute environment in which a model keeps its state: 'agentcore' (bedrock/responses)."""
    timeouts: TimeoutsSection = TimeoutsSection()
    """How long the model may take to answer."""


class ModelSection(FallbackSection):
    """The model behind an agent."""

    options: OptionsSection = OptionsSection()
    """How the model answers, in words that mean the same with every provider. A request may set others."""
    stateful: bool = False
    """Let the provider's server keep the conversation: each request has only what is new (Responses)."""
    background: bool = False
    """Let the provider's server work on while nobody listens, so that a run survives a restart of the gateway
    (Responses)."""
    fallback: tuple[FallbackSection, ...] = Field(default=(), max_length=MOST_FALLBACKS)
    """Models that are asked in turn once this one has failed before anything of its answer was seen."""


class ContextSection(Section):
    """How much of a thread the model is shown; the thread keeps everything."""

    max_messages: Whole | None = Field(default=None, ge=1, le=1_000_000)
    """The model is shown this many of the newest messages; a call never goes without its result. null: all."""
    max_earlier_messages: Whole | None = Field(default=None, ge=0, le=1_000_000)
    """The model is shown this many of the newest messages before the user's last words; it is always shown what came
    after them. null: all."""
    max_tokens: Whole | None = Field(default=None, ge=100, le=100_000_000)
    """The model is shown about as many tokens of the newest messages. null: all."""
    summarize: bool = True
    """Let the model summarise a conversation that it refuses as too long, if cutting tool results is not enough."""


class ClientInstructionsSection(Section):
    """How the model is shown callers' system and developer messages, their context and the shared state.

    'system': as the operator's words; 'user': in front of the user's words, as the client's; 'ignore': not at all.
    """

    keys: Literal["system", "user", "ignore"] = _CLIENT_INSTRUCTIONS.keys
    """For callers with an API key, and for all callers without keys."""
    visitors: Literal["system", "user", "ignore"] = _CLIENT_INSTRUCTIONS.visitors
    """For visitors of websites, whose system and developer messages are always dropped."""


class ToolSection(Section):
    """A tool that the gateway runs for the agent."""

    type: str
    """The type of the tool: 'PythonTool', 'SearchIndexTool', ..."""
    name: str | None = None
    """The tool's name for the model; if absent, the name that the tool has itself."""
    description: str | None = None
    """The tool's description for the model; if absent, the description that the tool has itself."""
    parameters: JsonObject | None = None
    """Parameters of this type of tool."""
    approval: Literal["never", "always"] = "never"
    """'always': a person approves each call before it runs."""
    approvers: Literal["callers", "keys"] | None = None
    """Who approves: null: whoever began the conversation, except a website's visitors; 'callers': visitors, too;
    'keys': only a key of server.api_keys with 'approvals: true', by POST /approvals/{id}. With such a key anybody's
    calls can be approved.
    """
    expose_errors: bool = False
    """Tell the model and the users the text of any exception of the tool, while you write it. Otherwise they only get
    the text of gateway.tool.ToolError.
    """
    idempotent: bool = False
    """A call that is carried out twice has the effect of one. So a run that another process goes on with repeats a call
    that was under way.
    """


class ParametersSection(Section):
    """Limits of one run of the agent."""

    max_iteration: Whole = Field(default=_BUDGETS.max_iteration, ge=1, le=10_000)
    """The most model calls."""
    on_max_iteration: LastIteration = _BUDGETS.on_max_iteration
    """What follows the last iteration if the model still wants tools: 'answer': one more model call, which has to
    answer without tools; 'stop': nothing, the run ends as incomplete; 'summarize': one more model call, which
    summarises the steps so far. Under 'summarize' a round of tool calls counts as an iteration, too.
    """
    max_tool_calls: Whole = Field(default=_BUDGETS.max_tool_calls, ge=1, le=100_000)
    """The most calls of backend tools."""
    max_parallel_tools: Whole = Field(default=_BUDGETS.max_parallel_tools, ge=1, le=1000)
    """The most backend tools that run at one time."""
    max_run_seconds: Seconds | None = Field(default=_BUDGETS.max_run_seconds, gt=0)
    """The most seconds for the whole run; null: no limit."""
    max_total_tokens: Whole | None = Field(default=_BUDGETS.max_total_tokens, ge=1)
    """The most input and output tokens of all model calls together; null: no limit."""
    max_answer_bytes: Whole = Field(default=_BUDGETS.max_answer_bytes, ge=1_000, le=1_000_000_000)
    """The most bytes of one answer of the model: its text, reasoning and media (as base64), and its calls'
    arguments."""
    max_run_bytes: Whole = Field(default=_BUDGETS.max_run_bytes, ge=1_000, le=1_000_000_000)
    """The most bytes of all answers of the run's models together."""
    max_calls_per_answer: Whole = Field(default=_BUDGETS.max_calls_per_answer, ge=1, le=100_000)
    """The most tool calls in one answer of the model."""
    tool_timeout_seconds: Seconds = Field(default=_BUDGETS.tool_timeout_seconds, gt=0)
    """The most seconds for one tool call."""
    approval_timeout_seconds: Seconds = Field(default=_BUDGETS.approval_timeout_seconds, gt=0)
    """How many seconds a person has to approve a call; after that it counts as denied."""
    max_repeated_calls: Whole = Field(default=_BUDGETS.max_repeated_calls, ge=1, le=1000)
    """How often the same call with the same arguments may run."""
    model_attempts: Whole = Field(default=_BUDGETS.model_attempts, ge=1, le=20)
    """The most tries for one model call, the first one included."""


class AgentSection(Section):
    """An agent: a model, its tools and its rules."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,511}$")
    """The id by which URLs name the agent: POST /agents/{id}/run."""
    name: str | None = Field(default=None, min_length=1, max_length=256)
    """The agent's name for people; if absent, the id."""
    description: str = ""
    """The agent's purpose, for people and for other agents."""
    type: str = "conversational"
    """The agent's type; 'conversational' is the loop of model calls and tool calls."""
    system_prompt: str = ""
    """Instructions for the model, before everything else."""
    model: ModelSection
    """The model that answers, and how it is reached."""
    tools: tuple[ToolSection, ...] = ()
    """Tools that the gateway runs for the agent. A request may bring others, which its client runs."""
    on_disconnect: Literal["cancel", "continue"] = "cancel"
    """If a run has had no viewer for server.disconnect_grace_seconds: 'cancel' it, or let it 'continue'."""
    on_takeover: Literal["end", "continue"] = "end"
    """If the process of a run ends first: the next process, or another gateway, ends the run as failed ('end'), or goes
    on with it ('continue')."""
    on_concurrent_run: Literal["reject", "enqueue", "cancel_previous"] = "reject"
    """If a thread has a run and another one is asked for: 'reject' the new one with a 409, 'enqueue' it behind the
    others, or cancel the one that there is ('cancel_previous')."""
    history: HistoryMode = "replace"
    """'replace': a request's messages are the whole history; 'append': only what is new; 'by_id': the whole history if
    they begin with the thread's first message, else only what is new.
    """
    context: ContextSection = ContextSection()
    """How much of a long thread the model is shown."""
    client_instructions: ClientInstructionsSection = ClientInstructionsSection()
    """How the model is shown what callers send beside their users' words."""
    locked: tuple[Lockable | Literal["all"], ...] = ()
    """What callers may not set for their runs, such as 'temperature' or 'max_tokens'; 'all': nothing of it. Visitors of
    websites may not set anything in any case."""
    allow_models: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=1_000)
    """Ids of further models of the same provider, one of which a request may ask for in place of model_id."""
    usage_event: bool = False
    """Tell viewers the tokens of each model call, in a CUSTOM event `token_usage` before the run's end."""
    parameters: ParametersSection = ParametersSection()
    """How much one run may use."""


class CallersSection(Section):
    """The endpoints that agents of callers may reach, and the identity that they have."""

    endpoints: tuple[str, ...] | None = None
    """Regular expressions; a URL has to match one as a whole, and its host the part between '://' and the next '/':
    '^https://api\\.example\\.com/.*$'. One without a path trusts all paths of its origin. Absent or null: the own hosts
    of the model providers."""
    private_addresses: bool = False
    """Endpoints may be in private networks and on this machine. Metadata addresses of clouds are never reached."""
    own_identity: bool = False
    """Models may act as this process: by its AWS role, profile or environment variables."""
    max_agents: Whole = Field(default=1000, ge=0, le=1_000_000)
    """How many agents each caller may store."""


class SearchSection(Section):
    """Which documents the search tools search. A text is its `url`."""

    url: str
    """'embedded:sample', an index in a file ('embedded:/path.db'), or an OpenSearch cluster:
    'opensearch://user:password@host:9200?tls=true'. The fields below are for a cluster."""
    indices: tuple[Annotated[str, Field(pattern=INDEX_PATTERN)], ...] = Field(default=(), max_length=100)
    """The indices that may be searched: names, or patterns with '*', such as 'books-*'. A cluster needs them. Indices
    whose names begin with '.' and those of the gateway's own store are never searched, whatever the patterns say."""
    identity: Identity = "service"
    """Whose rights count in the cluster: those of the URL's user ('service'), or those of the user with the name of the
    caller's API key ('impersonate'), which OpenSearch's security plugin has to allow."""
    scripts: bool = False
    """Allow searches with scripts."""
    timeout_seconds: Seconds = Field(default=_SEARCH.timeout_seconds, ge=0.1, le=300)
    """The most seconds for one search."""
    max_response_bytes: Whole = Field(default=_SEARCH.max_response_bytes, ge=10_000, le=100_000_000)
    """The most bytes of one answer of the cluster. A larger one is an error, which asks the model for less."""


def _as_section(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


_URL_OR_SECTION = Annotated[
    SearchSection | None,
    BeforeValidator(_as_section, json_schema_input_type=SearchSection | str | None),
]


class ClusterSection(Section):
    """How several gateways share one store, and reach each other."""

    advertise: str | None = Field(default=None, max_length=2048)
    """The URL by which the store's other gateways reach this one: 'http://10.0.0.7:8000', with the path of a mount.
    They send requests for threads that have a run here. Each gateway has its own. Absent or null: this gateway takes
    the store alone."""
    lease_seconds: Seconds = Field(default=10.0, ge=2, le=120)
    """How long the others wait for a gateway that is silent before they take it for dead, and end its runs. All of them
    have the same."""


class ConfigurationSection(Section):
    """The configuration file of agui-gateway. Every text may hold '${env:NAME}' and '${file:/path}'."""

    server: ServerSection = ServerSection()
    """How the gateway listens, and how it treats its clients."""
    store: str = Field(default="sqlite:///gateway.db", min_length=1)
    """Where threads and runs are kept: the URL of a SQLite file, whose relative path is relative to this file, or of an
    OpenSearch cluster: 'opensearch://user:password@host:9200?prefix=NAME&tls=true'."""
    search: _URL_OR_SECTION = Field(
        default=SearchSection(url="embedded:sample"), json_schema_extra={"default": "embedded:sample"}
    )
    """The documents that the search tools search: a URL, or a mapping with more. null: there is no search."""
    cluster: ClusterSection = ClusterSection()
    """How this gateway shares its store with others."""
    agents: tuple[AgentSection, ...] | None = None
    """The agents. Without any, the gateway answers requests but has nothing to run."""
    callers: CallersSection = CallersSection()
    """Rules for the agents that callers make at run time."""
    protocols: ProtocolsSection = ProtocolsSection()
    """How protocols work, for all callers; what a key's own `protocols` says comes first."""
    ml_commons: MlCommonsSection = MlCommonsSection()
    """Settings of ml-commons' REST API."""
