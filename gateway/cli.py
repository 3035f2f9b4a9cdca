"""The command line: `agui-gateway serve | reload | vacuum | export OUT | import IN | doctor | cluster | config ... |
agents ...`.

Below: settings; server.process, which only `serve` imports; server.doctor; server.cluster_table; server.agents_client.
Results go to standard output, messages to standard error.

Exit codes: 0 success; 1 the configuration or an agent has a problem, serving failed, or the gateway refused; 2 the
command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import quote, urlsplit

from gateway import __version__
from gateway.agent import AgentDefinition
from gateway.clock import SystemClock
from gateway.configuration.known_parts import KnownParts, known_parts, scheme
from gateway.errors import ConfigurationError, GatewayError
from gateway.logs import configure_logging
from gateway.parts import find
from gateway.search_engine import SearchSettings
from gateway.settings import (
    DEFAULT_FILE,
    Flags,
    Settings,
    check_settings,
    configuration_schema,
    example_configuration,
    load_settings,
    store_file,
)
from gateway.store import Finding, Level, Store, StoreEnvironment, Vacuumed
from gateway.store.export_file import read_export, written_export

if TYPE_CHECKING:
    from gateway.server.agents_client import AgentsClient
    from gateway.server.outcome import Outcome

_Command: TypeAlias = Callable[[argparse.Namespace], int]

_KEY_VARIABLE = "AGUI_GATEWAY_KEY"
_USUAL_URL = "http://127.0.0.1:8000"
_RELOAD_SECONDS = 30.0
_VACUUM_SECONDS = 3600.0
_NO_AGENTS = "no agents are configured; add one under 'agents', or serve the demonstration with --demo"

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as exit_:  # argparse has printed the error, the help or the version
        return exit_.code if isinstance(exit_.code, int) else 2
    command = cast(_Command, arguments.command)
    try:
        return command(arguments)
    except GatewayError as error:
        print(error.message, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader (`| head`) closed the pipe: nothing more may be written, at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agui-gateway",
        description="Runs agents and speaks AG-UI over HTTP.",
        epilog="Exit codes: 0 success; 1 a problem in the configuration or an agent, or serving failed; 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"agui-gateway {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="serve the agents over HTTP")
    _add_config(serve)
    serve.add_argument("--host", metavar="H", help="the address to listen on")
    serve.add_argument("--port", metavar="N", type=_port, help="the port to listen on; 0 takes a free one")
    _add_store(serve)
    serve.set_defaults(command=_serve)

    reload = commands.add_parser("reload", help="make the running gateway use the agents of its changed file")
    _add_config(reload)
    _add_store(reload)
    _add_timeout(reload, _RELOAD_SECONDS, "until the gateway says what has changed")
    reload.set_defaults(command=_reload)

    vacuum = commands.add_parser("vacuum", help="rewrite the store's file, also while a gateway serves it")
    _add_config(vacuum)
    _add_store(vacuum)
    _add_timeout(vacuum, _VACUUM_SECONDS, "until the gateway has rewritten the file")
    vacuum.set_defaults(command=_vacuum)

    export = commands.add_parser(
        "export", help="write all that the store keeps into a file, also while a gateway serves"
    )
    export.add_argument("file", metavar="OUT", type=Path, help="the new file, which only you can read: it has secrets")
    export.set_defaults(command=_export)
    import_ = commands.add_parser("import", help="take what 'export' wrote into an empty store")
    import_.add_argument("file", metavar="IN", type=Path, help="the file")
    import_.set_defaults(command=_import)

    doctor = commands.add_parser("doctor", help="say what would keep a gateway from serving, and how to mend it")
    doctor.set_defaults(command=_doctor)
    cluster = commands.add_parser("cluster", help="list the gateways that share the store")
    cluster.set_defaults(command=_cluster)
    for each in (export, import_, doctor, cluster):
        _add_config(each)
        _add_store(each)
    for each in (doctor, cluster):
        each.add_argument("--json", action="store_true", help="as JSON")

    config = commands.add_parser("config", help="check a configuration file, or print its schema or an example")
    actions = config.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="list a file's problems, by line and field")
    check.add_argument("file", metavar="FILE", type=Path)
    check.set_defaults(command=_config_check)
    schema = actions.add_parser("schema", help="print the file's JSON Schema")
    schema.set_defaults(command=_config_schema)
    example = actions.add_parser("example", help="print a commented file to start from")
    example.set_defaults(command=_config_example)

    _add_agents(commands.add_parser("agents", help="list the configured agents, or manage those of a running gateway"))
    return parser


def _add_agents(agents: argparse.ArgumentParser) -> None:
    _add_config(agents)
    agents.add_argument("--json", action="store_true", help="as JSON")
    agents.set_defaults(command=_agents)
    actions = agents.add_subparsers(
        title="actions of a running gateway",
        metavar="ACTION",
        description=f"They send the key in ${_KEY_VARIABLE}. Without an action the agents of the file are listed.",
    )
    listed = actions.add_parser("list", help="list the agents that you may use")
    listed.add_argument("--json", action="store_true", help="as JSON")
    listed.set_defaults(command=_agents_list)
    added = actions.add_parser("add", help="store agents of yours, or replace them")
    added.add_argument(
        "file",
        metavar="FILE",
        help="one agent as in the configuration file, or several under 'agents'; - for standard input",
    )
    added.set_defaults(command=_agents_add)
    removed = actions.add_parser("remove", help="delete an agent of yours")
    removed.add_argument("id", metavar="ID", help="the agent's id")
    removed.set_defaults(command=_agents_remove)
    for action in (listed, added, removed):
        action.add_argument(
            "--url", type=_url, default=_USUAL_URL, help=f"the gateway's address (default: {_USUAL_URL})"
        )


def _add_config(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration file (default: $AGUI_GATEWAY_CONFIG, else ./gateway.yaml, else the demonstration)",
    )
    which.add_argument("--demo", action="store_true", help="the demonstration, even if there is a configuration file")


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="URL", help="where threads and runs are kept, e.g. sqlite:///gateway.db")


def _add_timeout(parser: argparse.ArgumentParser, seconds: float, until: str) -> None:
    wait = f"how long to wait {until} (default: {seconds:g})"
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=seconds, help=wait)


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to 65535")
    return port


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise argparse.ArgumentTypeError(f"{text!r} is not an http or https URL; give one such as {_USUAL_URL}")
    return text


def _seconds(text: str) -> float:
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give one such as 30")
    return float(text)


def _serve(arguments: argparse.Namespace) -> int:
    flags = Flags(arguments.config, arguments.host, arguments.port, arguments.store, arguments.demo)
    parts = known_parts()
    settings = load_settings(flags, parts=parts)
    redaction = configure_logging(settings.server.log_level, settings.server.log_format, settings.secrets)
    _log_source(settings, flags)
    # here, because only this command needs a web framework
    from gateway.page import page_is_built
    from gateway.server.process import serve

    has_page = page_is_built()

    def announce(port: int) -> None:
        print(startup_banner(settings, address(settings, port), has_page=has_page), flush=True)

    try:
        return serve(settings, flags=flags, parts=parts, redaction=redaction, on_listening=announce)
    except ConfigurationError:
        check_settings(flags, parts=parts)  # reports each part that did not open, and all other problems
        raise


def _log_source(settings: Settings, flags: Flags) -> None:
    """The first log line: where the configuration comes from, since a file may be used without being named."""
    if settings.source is None:
        logger.info("serving the demonstration")
    elif settings.source == Path(DEFAULT_FILE) != flags.config:
        logger.info("using ./gateway.yaml from the current directory", extra={"file": str(settings.source.absolute())})
    else:
        logger.info("using a configuration file", extra={"file": str(settings.source.absolute())})
    if not settings.agents:
        logger.warning("an empty gateway: %s", _NO_AGENTS)


def _reload(arguments: argparse.Namespace) -> int:
    settings, parts = _checked(arguments)
    if (store := store_file(settings, parts)) is None:
        raise ConfigurationError(
            "the store is not a file, so its process cannot be found; send it SIGHUP: kill -HUP PID"
        )
    from gateway.server.pid_file import serving_pid  # here, because Windows has neither these locks nor the signals

    if (pid := serving_pid(store)) is None:
        raise ConfigurationError(
            f"no gateway serves the store {str(store)!r}; start one with 'agui-gateway serve', or name its store"
        )
    outcome = _ask(pid, signal.SIGHUP, store, "reload", arguments.timeout, "read its file again")
    return _tell_outcome(outcome, f"process {pid} took over the agents of its file", f"process {pid} changed nothing")


def _vacuum(arguments: argparse.Namespace) -> int:
    settings, parts = _checked(arguments)
    store = store_file(settings, parts)
    if store is None or not store.is_file():
        name = f"{scheme(settings.store)}:" if store is None else str(store)  # a URL may have a password
        raise ConfigurationError(f"the store {name!r} is not a file that could be rewritten; name another with --store")
    from gateway.server.outcome import vacuumed_lines
    from gateway.server.pid_file import can_vacuum, serving_pid

    if (pid := serving_pid(store)) is None:
        done = asyncio.run(_vacuum_here(settings, parts))
        print(f"rewrote {store}:", *vacuumed_lines(done)[1:], sep="\n  ")
        return 0
    if not can_vacuum(store):
        raise GatewayError(f"process {pid} is an older version, which cannot be asked; restart it first")
    outcome = _ask(pid, signal.SIGUSR1, store, "vacuum", arguments.timeout, "rewritten the store")
    return _tell_outcome(outcome, f"process {pid} rewrote {store}", f"process {pid} did not rewrite {store}")


async def _vacuum_here(settings: Settings, parts: KnownParts) -> Vacuumed:
    async with _opened(_store(settings, parts)) as store:
        return await store.vacuum()


def _store(settings: Settings, parts: KnownParts) -> Store:
    environment = StoreEnvironment(SystemClock(), settings.store_directory, master_keys=settings.server.master_keys)
    return find(parts.stores, scheme(settings.store), "store").open(settings.store, environment)


@asynccontextmanager
async def _opened(store: Store) -> AsyncGenerator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _export(arguments: argparse.Namespace) -> int:
    store = _store(*_checked(arguments))

    async def export() -> Counter[str]:
        with written_export(arguments.file, SystemClock().now()) as writer:
            await store.export(writer.take)
        return writer.counts

    print(f"exported to {arguments.file}: {_told(asyncio.run(export()))}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    store = _store(*_checked(arguments))
    counts = Counter[str]()
    for _ in read_export(arguments.file, counts):  # finds what is wrong with the file before the store is made
        pass

    async def import_() -> None:
        async with _opened(store):
            await store.import_(read_export(arguments.file))

    # Ctrl-C ends the process at once, which leaves the store empty; asyncio would wait for the end of the import
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(import_())
    print(f"imported from {arguments.file}: {_told(counts)}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from gateway.server.doctor import examine, lines, member, verdict

    async def told() -> list[Finding]:
        found = []
        async for finding in examine(Flags(arguments.config, store=arguments.store, demo=arguments.demo)):
            found.append(finding)
            if not arguments.json:
                print(*lines(finding), sep="\n", flush=True)
        return found

    found = asyncio.run(told())
    print(json.dumps([member(finding) for finding in found], indent=2) if arguments.json else verdict(found))
    return 1 if any(finding.level is Level.PROBLEM for finding in found) else 0


def _cluster(arguments: argparse.Namespace) -> int:
    from gateway.server.cluster_table import lines, listed, member

    gateways = asyncio.run(listed(*_checked(arguments)))
    print(json.dumps([*map(member, gateways)], indent=2) if arguments.json else "\n".join(lines(gateways)))
    return 0


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}s" for name in ("thread", "message", "run", "document"))


def _checked(arguments: argparse.Namespace) -> tuple[Settings, KnownParts]:
    parts = known_parts()
    return check_settings(Flags(arguments.config, store=arguments.store, demo=arguments.demo), parts=parts), parts


def _ask(pid: int, number: signal.Signals, store: Path, command: str, seconds: float, work: str) -> Outcome:
    """Send a process a signal, and wait for the outcome. Raises GatewayError if the process does not report whether it
    has done its `work`.
    """
    from gateway.server.outcome import outcome_file, wait_for_outcome
    from gateway.server.pid_file import serving_pid

    asked = SystemClock().now()
    try:
        os.kill(pid, number)
    except OSError as error:
        raise ConfigurationError(f"cannot signal process {pid}: {error.strerror}; run this as its user") from error
    outcome = wait_for_outcome(
        outcome_file(store, command), asked=asked, seconds=seconds, is_serving=lambda: serving_pid(store) == pid
    )
    if outcome is not None:
        return outcome
    if serving_pid(store) != pid:
        raise GatewayError(f"process {pid} ended before it had {work}")
    raise GatewayError(f"process {pid} did not say within {seconds:g} seconds whether it has {work}; see its log")


def _tell_outcome(outcome: Outcome, did: str, did_not: str) -> int:
    where = sys.stdout if outcome.accepted else sys.stderr
    print(f"{did if outcome.accepted else did_not}:", *outcome.lines, sep="\n  ", file=where)
    return 0 if outcome.accepted else 1


def _config_check(arguments: argparse.Namespace) -> int:
    settings = check_settings(Flags(config=arguments.file))
    count = len(settings.agents)
    ids = ", ".join(agent.id for agent in settings.agents)
    has = f"{count} agent{'' if count == 1 else 's'}: {ids}" if count else f"but an empty gateway: {_NO_AGENTS}"
    print(f"{arguments.file}: good{';' if count else ','} {has}")
    return 0


def _config_schema(_: argparse.Namespace) -> int:
    print(json.dumps(configuration_schema(), indent=2))
    return 0


def _config_example(_: argparse.Namespace) -> int:
    print(example_configuration(), end="")
    return 0


def _agents(arguments: argparse.Namespace) -> int:
    settings = load_settings(Flags(config=arguments.config, demo=arguments.demo))
    if arguments.json:
        print(json.dumps([_agent_row(agent) for agent in settings.agents], indent=2))
    elif not settings.agents:
        print(_NO_AGENTS, file=sys.stderr)
    else:
        width = max(len(agent.id) for agent in settings.agents)
        for agent in settings.agents:
            print(f"{agent.id:<{width}}  {agent.name}: {_model(agent)}, {_tools(agent)}")
    return 0


def _agents_list(arguments: argparse.Namespace) -> int:
    with _running_gateway(arguments) as gateway:
        rows = list(gateway.agents())
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    width = max((len(row["id"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['id']:<{width}}  {row['name']}: {_whose(row)}")
    return 0


def _whose(row: Mapping[str, Any]) -> str:
    if "own" not in row:
        return "configured"
    return f"{'yours' if row['own'] else 'of somebody else'}{', public' if row['public'] else ''}"


def _agents_add(arguments: argparse.Namespace) -> int:
    from gateway.server.agents_client import read_agents

    stdin = sys.stdin.read() if arguments.file == "-" else ""
    agents = read_agents(arguments.file, stdin, os.environ)
    refused = 0
    with _running_gateway(arguments) as gateway:
        for agent in agents:
            try:
                created, url = gateway.put(agent)
            except GatewayError as error:
                refused += 1
                print(error.message, file=sys.stderr)
            else:
                print(f"{'stored' if created else 'replaced'} the agent {agent.agent_id!r}: {url}")
    return 1 if refused else 0


def _agents_remove(arguments: argparse.Namespace) -> int:
    with _running_gateway(arguments) as gateway:
        gateway.remove(arguments.id)
    print(f"removed the agent {arguments.id!r}")
    return 0


def _running_gateway(arguments: argparse.Namespace) -> AgentsClient:
    from gateway.server.agents_client import AgentsClient  # here, because no other command asks a gateway

    return AgentsClient(arguments.url, os.environ.get(_KEY_VARIABLE, ""))


def _agent_row(agent: AgentDefinition) -> dict[str, object]:
    return {
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "type": agent.type,
        "modelProvider": agent.model.model_provider,
        "modelId": agent.model.model_id,
        "tools": [tool.name or tool.type for tool in agent.tools],
        "path": run_path(agent),
    }


def _model(agent: AgentDefinition) -> str:
    if agent.model.model_provider == "demo":
        return "demo model, not an LLM: rules that need no network and no key"
    return " ".join(part for part in (agent.model.model_provider, agent.model.model_id) if part)


def _tools(agent: AgentDefinition) -> str:
    return f"tools: {', '.join(tool.name or tool.type for tool in agent.tools)}" if agent.tools else "no tools"


# --- the output of `serve` ------------------------------------------------------------------------------------------


def run_path(agent: AgentDefinition) -> str:
    """The path of the agent's runs, from the gateway's root."""
    return f"/agents/{quote(agent.id)}/run"


def address(settings: Settings, port: int) -> str:
    """The URL to open, without a slash at its end: `http://127.0.0.1:8000`.

    `port` is the one in use; the settings may say 0.
    """
    if settings.server.public_url is not None:
        return settings.server.public_url.rstrip("/")
    # the wildcard address cannot be opened
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.server.host, settings.server.host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def startup_banner(settings: Settings, base_url: str, *, has_page: bool = True) -> str:
    """The text to print once the gateway listens: all URLs, and lines to paste into a shell and a website.

    `base_url` is the gateway's `address`. The text contains publishable keys at most; the shell's line takes its key
    from a variable.
    """
    source = "the demonstration" if settings.source is None else str(settings.source)
    lines = [f"agui-gateway {__version__} serves {source} at {base_url}", ""]
    lines += _page_lines(base_url) if has_page else ["  page    not built: 'make page' builds it (needs Node.js)"]
    lines.append(f"  docs    {base_url}/docs")
    for agent in settings.agents:
        lines += [f"  agent   {base_url}{run_path(agent)}", f"          {agent.name}: {_model(agent)}"]
    if not settings.agents:
        return "\n".join([*lines, "", f"{_NO_AGENTS[0].upper()}{_NO_AGENTS[1:]}.", ""])
    if settings.server.publishable_keys and not settings.server.api_keys:
        sites = ", ".join(key.name for key in settings.server.publishable_keys)
        return "\n".join(
            [*lines, "", f"Only visitors get in, of: {sites}. For yourself add a key to server.api_keys.", ""]
        )
    lines += ["", "Try it, from another terminal:"]
    if settings.server.api_keys:
        names = ", ".join(key.name for key in settings.server.api_keys)
        lines.append(f"  export {_KEY_VARIABLE}=...    # the key of one of: {names}")
    lines.append(f"  {curl_line(settings, base_url)}")
    if has_page:
        lines += ["", *_widget_lines(settings, base_url)]
    return "\n".join([*lines, ""])


def _page_lines(base_url: str) -> list[str]:
    return [f"  page    {base_url}/", f"  shop    {base_url}/shop    a sample shop with the widget"]


def _widget_lines(settings: Settings, base_url: str) -> list[str]:
    server = settings.server
    if server.publishable_keys:
        where = f"a page of {', '.join(sorted(server.publishable_keys[0].origins))}"
    elif server.api_keys:
        return ["To put the chat on a website, configure server.publishable_keys: keys that its pages may show."]
    else:
        where = "a page of yours, whose origin is in server.cors_origins"
    return [f"Put the chat on {where}:", f"  {script_tag(settings, base_url)}"]


def script_tag(settings: Settings, base_url: str) -> str:
    """The HTML that puts a chat on a page: with the first publishable key and one of its agents, if there is a key."""
    attributes = {"type": "module", "src": f"{base_url}/widget.js", "data-agent": settings.agents[0].id}
    if settings.server.publishable_keys:
        key = settings.server.publishable_keys[0]
        agent = next(agent.id for agent in settings.agents if agent.id in key.agents)
        attributes |= {"data-agent": agent, "data-key": key.key}
    written = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<script {written}></script>"


def curl_line(settings: Settings, base_url: str) -> str:
    """A command for a POSIX shell that runs the first agent. Each paste begins a new thread."""
    body = {
        "threadId": "thread-@",
        "runId": "run-@",
        "messages": [{"id": "message-1", "role": "user", "content": _question(settings)}],
    }
    # the quotes end around the shell's variables, which are digits and need none
    data = shlex.quote(json.dumps(body, separators=(",", ":"))).replace("@", "'$(date +%s)'")
    words = ["curl -N", shlex.quote(base_url + run_path(settings.agents[0]))]
    if settings.server.api_keys:
        words.append(f'-H "Authorization: Bearer ${_KEY_VARIABLE}"')
    words += ["-H 'Content-Type: application/json'", "-H 'Accept: text/event-stream'", f"-d {data}"]
    return " ".join(words)


def _question(settings: Settings) -> str:
    tools = {tool.type for tool in settings.agents[0].tools}
    has_samples = settings.search == SearchSettings("embedded:sample") and "SearchIndexTool" in tools
    return "What was the population of Seattle in 2023?" if has_samples else "What can you do?"
