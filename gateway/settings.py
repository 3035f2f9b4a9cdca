"""The operator's decisions, read once: configuration file, environment and flags become frozen `Settings`.

Flags win over the environment, the environment over the file, the file over the defaults. Below: configuration (the
file, its sections, its checks, the known parts). Above: the composition root.

The environment sets single fields of `server`, `cluster` and `search`, and `store` and `search` themselves:
`AGUI_GATEWAY__SERVER__PORT=9000`, `AGUI_GATEWAY__STORE=sqlite:////data/gateway.db`; lists are separated by commas.
`AGUI_GATEWAY_CONFIG` names the file if no flag does; without either it is `gateway.yaml` in the current directory if
there is one. Without any file, or with `--demo`, the gateway serves the demonstration in `example.yaml` of this
package, with its data in the current directory. A file without agents makes a gateway without agents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from gateway.access.limits import KeyLimits, VisitorLimits
from gateway.access.visitors import PublishableKey
from gateway.agent import (
    AgentDefinition,
    Secret,
)
from gateway.clock import SystemClock
from gateway.configuration.checks import configuration_problems, outside_reach
from gateway.configuration.definitions import (
    SHORTEST_UNKNOWN_SECRET,
    PartEnvironments,
    agent_definition,
    agent_secrets,
    fields_of,
    opening_problem,
    opening_problems,
    url_secrets,
)
from gateway.configuration.file import (
    ConfigurationText,
    FieldPath,
    FieldProblem,
    InvalidConfigurationError,
    Problem,
    did_you_mean,
    parse_configuration,
    read_configuration,
)
from gateway.configuration.known_parts import KnownParts, known_parts, scheme
from gateway.configuration.protocol_sections import (
    NamedSettings,
    SettingsKinds,
    general_settings,
    settings_of_key,
    with_protocols,
)
from gateway.configuration.reading import read_sections
from gateway.configuration.schema import json_schema
from gateway.configuration.sections import (
    ClusterSection,
    ConfigurationSection,
    LogFormat,
    LogLevel,
    SearchSection,
    ServerSection,
)
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.loop import LoopEnvironment
from gateway.messages import JsonObject, JsonValue
from gateway.model import ModelEnvironment
from gateway.parts import collect
from gateway.protocol import WireProtocol
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.store import StoreEnvironment
from gateway.tool import ToolEnvironment, ToolType

DEFAULT_FILE = "gateway.yaml"
_ENVIRONMENT_PREFIX = "AGUI_GATEWAY__"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A bearer key. `name` is the owner of its threads and runs. `protocols` has the settings of those protocols for
    which the key has a section of its own, and None for those that it may not use.
    """

    name: str
    key: Secret
    limits: KeyLimits
    approvals: bool = False
    admin: bool = False
    protocols: NamedSettings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The section `server`; configuration.ServerSection explains its fields."""

    host: str
    port: int
    public_url: str | None
    default_agent: str | None
    cors_origins: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    api_keys: tuple[ApiKey, ...]
    publishable_keys: tuple[PublishableKey, ...]
    visitor_secret: Secret | None
    master_keys: tuple[Secret, ...]
    visitor_token_days: float
    trusted_proxies: tuple[str, ...]
    allow_unauthenticated: bool
    allowed_private_hosts: tuple[str, ...]
    environment_proxies: bool
    disconnect_grace_seconds: float
    heartbeat_seconds: float | None
    drain_seconds: float
    max_body_bytes: int
    max_body_seconds: float
    max_unread_bytes: int
    max_concurrent_runs: int | None
    max_waiting_runs: int
    max_versions: int
    max_viewer_events: int
    retention_days: float
    visitor_retention_days: float | None
    log_level: LogLevel
    log_format: LogFormat

    @property
    def has_keys(self) -> bool:
        """Whether requests need a key."""
        return bool(self.api_keys or self.publishable_keys)

    @property
    def keys_approve(self) -> bool:
        """Whether there is an API key that may approve."""
        return any(key.approvals for key in self.api_keys)

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines can reach the gateway without a key."""
        return not self.has_keys and outside_reach(self) is not None

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every host name that the operator configured: the allowed hosts of authentication.AccessRules."""
        public = urlsplit(self.public_url or "").hostname
        return (*self.allowed_hosts, self.host, *([public] if public else ()))


@dataclass(frozen=True, slots=True)
class CallersSettings:
    """The section `callers`. `endpoints` are patterns, the model providers' own where the operator names none."""

    endpoints: tuple[str, ...] = ()
    private_addresses: bool = False
    own_identity: bool = False
    max_agents: int = 1000


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The section `cluster`; configuration.ClusterSection explains its fields."""

    advertise: str | None = None
    lease_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the operator decided.

    `store` is a URL, whose relative path is relative to `store_directory`; all others are relative to `directory` (the
    file's own). `protocols` has the settings of each protocol that has some, None where it is turned
    off. `ml_commons`: the section's fields by their names in OpenSearch. `source` is None where there is no file.
    `secrets` are all texts that no log may show.
    """

    server: ServerSettings
    store: str
    store_directory: Path
    search: SearchSettings | None
    cluster: ClusterSettings
    agents: tuple[AgentDefinition, ...]
    callers: CallersSettings
    protocols: NamedSettings
    ml_commons: JsonObject
    directory: Path
    source: Path | None
    secrets: tuple[Secret, ...]


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line's flags; None for a flag that is not given. `store` is relative to the current directory.

    `demo`: serve the demonstration even if there is a configuration file.
    """

    config: Path | None = None
    host: str | None = None
    port: int | None = None
    store: str | None = None
    demo: bool = False


def load_settings(
    flags: Flags = Flags(), *, environ: Mapping[str, str] = os.environ, parts: KnownParts | None = None
) -> Settings:
    """The settings from flags, environment, file and defaults.

    Raises:
        InvalidConfigurationError: lists every problem with its place.
    """
    settings, _ = _load(flags, environ, parts or known_parts())
    return settings


def check_settings(
    flags: Flags,
    *,
    environ: Mapping[str, str] = os.environ,
    parts: KnownParts | None = None,
    on_secrets: Callable[[Sequence[Secret]], None] = lambda secrets: None,
) -> Settings:
    """As load_settings; also opens every model and tool, which imports the modules that the file names.

    `on_secrets` gets the file's secrets before anything is opened with them.

    Raises:
        InvalidConfigurationError: lists every problem with its place.
    """
    parts = parts or known_parts()
    settings, text = _load(flags, environ, parts)
    on_secrets(settings.secrets)
    text.report_all(_part_problems(settings, parts))
    _raise_problems(text)
    return settings


def store_file(settings: Settings, parts: KnownParts) -> Path | None:
    """The store's file; None for a store without one."""
    store_type = parts.stores[scheme(settings.store)]
    return store_type.file(settings.store, StoreEnvironment(SystemClock(), settings.store_directory))


def needing_restart(running: Settings, loaded: Settings) -> list[str]:
    """The names of the fields that differ and are read only at start: all except the agents and the choice of the
    default agent.
    """
    server = [
        f"server.{each.name}"
        for each in fields(ServerSettings)
        if each.name != "default_agent" and getattr(running.server, each.name) != getattr(loaded.server, each.name)
    ]
    others = ("store", "search", "cluster", "callers", "protocols", "ml_commons")
    return server + [name for name in others if getattr(running, name) != getattr(loaded, name)]


def example_configuration() -> str:
    """The demonstration's configuration file, with comments: a start for an operator's own."""
    return files("gateway").joinpath("example.yaml").read_text(encoding="utf-8")


def configuration_schema() -> JsonObject:
    """The file's JSON Schema, for editors: with the tool types and the protocols that are installed here."""
    tools = collect("tools", ToolType)
    return json_schema(_sections(), {name: tool.parameters for name, tool in tools.items()})


def _sections() -> type[ConfigurationSection]:
    """The class of the configuration file's sections, including those of all protocols.

    Raises:
        ConfigurationError: two protocols have other settings of one name.
    """
    protocols = collect("protocols", WireProtocol).values()
    return with_protocols(
        _by_name(protocol.settings for protocol in protocols), _by_name(each.agent_settings for each in protocols)
    )


def _by_name(settings: Iterable[SettingsKinds]) -> SettingsKinds:
    kinds: dict[str, type[BaseModel]] = {}
    for name, kind in (each for own in settings for each in own.items()):
        if kinds.setdefault(name, kind) is not kind:
            raise ConfigurationError(f"two protocols have different settings called {name!r}; rename those of one")
    return kinds


def _load(flags: Flags, environ: Mapping[str, str], parts: KnownParts) -> tuple[Settings, ConfigurationText]:
    source = _source(flags, environ)
    text = _demonstration() if source is None else read_configuration(source, environ)
    _apply_environment(text, environ)
    _apply_flags(text, flags)
    section = read_sections(text, _sections())
    if section is None:
        raise InvalidConfigurationError(_in_order(text.problems))
    text.report_all(configuration_problems(section, parts, text.expanded))
    _raise_problems(text)
    return _settings(text, section, source, parts), text


def _source(flags: Flags, environ: Mapping[str, str]) -> Path | None:
    if flags.demo:
        return None
    if flags.config is not None:
        return flags.config
    if named := environ.get("AGUI_GATEWAY_CONFIG"):
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None


def _demonstration() -> ConfigurationText:
    return parse_configuration(example_configuration(), "example.yaml")


def _raise_problems(text: ConfigurationText) -> None:
    if text.problems:
        raise InvalidConfigurationError(_in_order(text.problems))


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line and column, each problem once."""
    unique = list(dict.fromkeys(problems))
    return sorted(unique, key=lambda problem: [int(part) for part in problem.place.split(":") if part.isdigit()])


# --- flags and environment ----------------------------------------------------------------------------------------


def _apply_environment(text: ConfigurationText, environ: Mapping[str, str]) -> None:
    for name, value in environ.items():
        if not name.startswith(_ENVIRONMENT_PREFIX):
            continue
        path = tuple(name.removeprefix(_ENVIRONMENT_PREFIX).lower().split("__"))
        place = f"environment variable {name}"
        if path in _FILE_ONLY:
            text.problems.append(
                Problem(place, (), "holds mappings; write them in the file, with '${env:NAME}' in them")
            )
        elif path not in _ENVIRONMENT_PATHS:
            near = did_you_mean(name, [_variable(known) for known in _ENVIRONMENT_PATHS])
            text.problems.append(Problem(place, (), f"sets no known field{near or '; unset it'}"))
        elif path[-1] in _WORD_LISTS:
            text.override(path, [word.strip() for word in value.split(",") if word.strip()], place)
        else:
            text.override(path, value, place)


def _variable(path: tuple[str, ...]) -> str:
    return _ENVIRONMENT_PREFIX + "__".join(path).upper()


_WORD_LISTS = frozenset(
    {"cors_origins", "allowed_hosts", "allowed_private_hosts", "trusted_proxies", "master_keys", "indices"}
)
_KEY_LISTS = frozenset({"api_keys", "publishable_keys"})
_FILE_ONLY = frozenset({("agents",), *(("server", name) for name in _KEY_LISTS)})
_ENVIRONMENT_PATHS: tuple[tuple[str, ...], ...] = (
    *(("server", name) for name in ServerSection.model_fields if name not in _KEY_LISTS),
    ("store",),
    ("search",),
    *(("search", name) for name in SearchSection.model_fields),
    *(("cluster", name) for name in ClusterSection.model_fields),
)


def _apply_flags(text: ConfigurationText, flags: Flags) -> None:
    if flags.host is not None:
        text.override(("server", "host"), flags.host, "--host")
    if flags.port is not None:
        text.override(("server", "port"), flags.port, "--port")
    if flags.store is not None:
        text.override(("store",), flags.store, "--store")


# --- from sections to settings --------------------------------------------------------------------------------------


def _settings(
    text: ConfigurationText, section: ConfigurationSection, source: Path | None, parts: KnownParts
) -> Settings:
    here = Path.cwd()
    directory = source.parent.absolute() if source is not None else here
    store_in_file = source is None or text.place(("store",)).startswith(f"{source}:")
    protocols = general_settings(section.protocols)
    return Settings(
        server=_server_settings(section.server, protocols),
        store=section.store,
        store_directory=directory if store_in_file else here,
        search=None if section.search is None else SearchSettings(**section.search.model_dump()),
        cluster=ClusterSettings(**section.cluster.model_dump()),
        agents=tuple(agent_definition(agent, parts) for agent in section.agents or ()),
        callers=_callers_settings(section, parts),
        protocols=protocols,
        ml_commons=section.ml_commons.by_name(),
        directory=directory,
        source=source,
        secrets=tuple(map(Secret, sorted(set(_secrets(text, section))))),
    )


def _callers_settings(section: ConfigurationSection, parts: KnownParts) -> CallersSettings:
    callers = section.callers
    endpoints = section.ml_commons.trusted_connector_endpoints_regex if callers.endpoints is None else callers.endpoints
    if endpoints is None:
        own_hosts = (pattern for provider in parts.models.values() for pattern in provider.endpoints)
        endpoints = tuple(dict.fromkeys(own_hosts))
    private = callers.private_addresses and section.ml_commons.connector.private_ip_enabled is not False
    return CallersSettings(endpoints, private, callers.own_identity, callers.max_agents)


def _server_settings(section: ServerSection, protocols: NamedSettings) -> ServerSettings:
    own = {"api_keys", "publishable_keys", "visitor_secret", "master_keys"}
    values = {name: getattr(section, name) for name in ServerSection.model_fields if name not in own}
    keys = tuple(
        ApiKey(
            entry.name,
            Secret(entry.key),
            KeyLimits(**entry.limits.model_dump()),
            entry.approvals,
            entry.admin,
            settings_of_key(entry.protocols, protocols),
        )
        for entry in section.api_keys
    )
    publishable_keys = tuple(
        PublishableKey(
            entry.name,
            entry.key,
            frozenset(entry.origins),
            frozenset(entry.agents),
            VisitorLimits(**entry.limits.model_dump()),
        )
        for entry in section.publishable_keys
    )
    secret = None if section.visitor_secret is None else Secret(section.visitor_secret)
    return ServerSettings(
        **values,
        api_keys=keys,
        publishable_keys=publishable_keys,
        visitor_secret=secret,
        master_keys=tuple(map(Secret, section.master_keys)),
    )


def _secrets(text: ConfigurationText, section: ConfigurationSection) -> Iterator[str]:
    """Keys, credentials, passwords in URLs, and values that references brought into the parameters of tools and
    models.
    """
    for key in section.server.api_keys:
        yield key.key
    if section.server.visitor_secret is not None:
        yield section.server.visitor_secret
    yield from section.server.master_keys
    for url in (section.store, None if section.search is None else section.search.url):
        yield from url_secrets(url)
    for agent in section.agents or ():
        yield from agent_secrets(agent)
    for path in text.expanded:
        if "parameters" in path[3:] or {"model_parameters", "params"} & set(path):
            value = _at(text.values, path)
            if isinstance(value, str) and len(value) >= SHORTEST_UNKNOWN_SECRET:
                yield value


def _at(value: JsonValue, path: FieldPath) -> JsonValue:
    for part in path:
        if isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    return value


def _part_problems(settings: Settings, parts: KnownParts) -> Iterator[FieldProblem]:
    """Open every loop, model, tool, the store and the search engine, report failures, and close everything again."""
    clock = SystemClock()
    http = HttpClients(clock)
    search = None
    if settings.search is not None:
        engine = parts.search_engines[scheme(settings.search.url)]
        try:
            search = engine.open(settings.search, SearchEnvironment(settings.directory, settings.store))
        except ConfigurationError as error:
            yield from fields_of(error, ("search",))
    store_type = parts.stores[scheme(settings.store)]
    environment = StoreEnvironment(clock, settings.store_directory)
    yield from opening_problem(("store",), store_type.open, settings.store, environment)
    environments = PartEnvironments(
        ModelEnvironment(clock, http),
        ToolEnvironment(clock, http, settings.directory, search),
        LoopEnvironment(clock, http, settings.directory),
    )
    for index, agent in enumerate(settings.agents):
        yield from opening_problems(agent, parts, environments, ("agents", index))
