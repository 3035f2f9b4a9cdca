"""Looks at whether a gateway could serve from a configuration, for `agui-gateway doctor`. It changes nothing.

Above: the command line. Below: settings and page; the type of the store says how the store is examined.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict
from functools import partial

from gateway.clock import SystemClock
from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.known_parts import KnownParts, known_parts, scheme
from gateway.errors import GatewayError
from gateway.messages import JsonObject
from gateway.page import page_is_built
from gateway.search_engine import SearchEnvironment
from gateway.server.pid_file import serving_pid
from gateway.settings import Flags, Settings, check_settings, load_settings, store_file
from gateway.store import Finding, Level, StoreEnvironment


async def examine(flags: Flags, parts: KnownParts | None = None) -> AsyncGenerator[Finding]:
    """What there is to say of a configuration, its store and what else a gateway needs."""
    parts = parts or known_parts()
    with _nothing_compiled():
        problems = _configuration_problems(flags, parts)
    for each in problems.problems if problems else ():
        text, _, remedy = str(each).partition("; ")
        yield Finding("configuration", Level.PROBLEM, text, remedy)
    try:
        settings = load_settings(flags, parts=parts)
    except InvalidConfigurationError:
        text = "not looked at, because the configuration does not say where it is"
        yield Finding("store", Level.WARNING, text, "mend the configuration, then run this command again")
        return
    if problems is None:
        yield Finding("configuration", Level.OK, _told(settings))
    if problems is None or all(each.path != ("store",) for each in problems.problems):
        async with aclosing(_store(settings, parts)) as findings:
            async for finding in findings:
                yield finding
    if problems is None or all(each.path[:1] != ("search",) for each in problems.problems):
        async with aclosing(_search(settings, parts)) as findings:
            async for finding in findings:
                yield finding
    yield _page()


def lines(finding: Finding) -> Iterator[str]:
    """The finding for a terminal: a line, and one for the remedy."""
    yield f"{finding.level:<8} {finding.subject}: {finding.text}"
    if finding.remedy:
        yield f"{'':8} -> {finding.remedy}"


def member(finding: Finding) -> JsonObject:
    """The finding for programs."""
    return {**asdict(finding), "level": finding.level.value}


def verdict(findings: Sequence[Finding]) -> str:
    """What all findings together mean."""
    counts = Counter(finding.level for finding in findings)
    problems, warnings = (_counted(counts[level], level) for level in (Level.PROBLEM, Level.WARNING))
    if counts[Level.PROBLEM]:
        return f"{problems}, {warnings}: mend the problems before you serve"
    return f"no problem, {warnings}: a gateway can serve"


def _counted(count: int, level: Level) -> str:
    return f"{count or 'no'} {level.value}{'' if count == 1 else 's'}"


def _configuration_problems(flags: Flags, parts: KnownParts) -> InvalidConfigurationError | None:
    try:
        check_settings(flags, parts=parts)
    except InvalidConfigurationError as error:
        return error
    return None


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Python leaves no compiled files beside the modules of tools, which the check imports."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _told(settings: Settings) -> str:
    count = len(settings.agents)
    source = "the demonstration" if settings.source is None else str(settings.source)
    return f"{source} is good: {count} agent{'' if count == 1 else 's'}, and each model and tool can be opened"


async def _store(settings: Settings, parts: KnownParts) -> AsyncGenerator[Finding]:
    file = store_file(settings, parts)
    if file is not None and (pid := serving_pid(file)) is not None:
        yield Finding("process", Level.OK, f"the process {pid} serves this store now")
    environment = StoreEnvironment(SystemClock(), settings.store_directory, settings.server.master_keys)
    examine_store = partial(parts.stores[scheme(settings.store)].examine, settings.store, environment)
    async with aclosing(_examined("store", examine_store)) as findings:
        async for finding in findings:
            yield finding


async def _search(settings: Settings, parts: KnownParts) -> AsyncGenerator[Finding]:
    if (search := settings.search) is None or (look := parts.search_engines[scheme(search.url)].examine) is None:
        return
    environment = SearchEnvironment(settings.directory, settings.store)
    async with aclosing(_examined("search", partial(look, search, environment))) as findings:
        async for finding in findings:
            yield finding


async def _examined(subject: str, examine_part: Callable[[], AsyncGenerator[Finding]]) -> AsyncGenerator[Finding]:
    """The findings, and one more if the examination fails."""
    try:
        async with aclosing(examine_part()) as findings:
            async for finding in findings:
                yield finding
    except GatewayError as error:
        yield Finding(subject, Level.PROBLEM, f"the examination ended: {error.message}")


def _page() -> Finding:
    if page_is_built():
        return Finding("page", Level.OK, "built")
    return Finding("page", Level.WARNING, "not built: the gateway serves without a page", "make page (needs Node.js)")
