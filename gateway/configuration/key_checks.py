"""The problems of the configured keys taken together: names in use twice, secrets that look public.

Below: sections; access (origins, visitors). Above: checks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from gateway.access.origins import origin_problem
from gateway.access.visitor_tokens import TOKEN_PREFIX
from gateway.access.visitors import PUBLISHABLE_PREFIX
from gateway.configuration.file import FieldPath, FieldProblem, below, did_you_mean, spell_path
from gateway.configuration.sections import ApiKeySection, PublishableKeySection, ServerSection
from gateway.documents.sealing import parse_key

_SHORTEST_SECRET = 32


def key_problems(server: ServerSection, agent_ids: Sequence[str]) -> Iterator[FieldProblem]:
    """The problems of the keys and their settings; paths begin at the section `server`."""
    yield from _taken_names_and_keys(server)
    for index, entry in enumerate(server.api_keys):
        if entry.key.startswith((PUBLISHABLE_PREFIX, TOKEN_PREFIX)):
            problem = f"begins as what everybody may see ({PUBLISHABLE_PREFIX!r}, {TOKEN_PREFIX!r}); choose another"
            yield ("api_keys", index, "key"), problem
    for index, publishable in enumerate(server.publishable_keys):
        yield from below(("publishable_keys", index), _publishable_problems(publishable, agent_ids))
    for index, proxy in enumerate(server.trusted_proxies):
        if network_problem := _network_problem(proxy):
            yield ("trusted_proxies", index), network_problem
    if server.visitor_secret is not None and len(server.visitor_secret) < _SHORTEST_SECRET:
        problem = (
            f"is too short; use at least {_SHORTEST_SECRET} characters, such as the output of 'openssl rand -hex 32'"
        )
        yield ("visitor_secret",), problem
    for index, key in enumerate(server.master_keys):
        try:
            parse_key(key)
        except ValueError as error:
            yield ("master_keys", index), f"is no key: {error}; use the output of 'openssl rand -base64 32'"


def _taken_names_and_keys(server: ServerSection) -> Iterator[FieldProblem]:
    """Names and keys must be unique: owners, limits and metrics go by the names."""
    names: dict[str, FieldPath] = {}
    keys: dict[str, FieldPath] = {}
    lists: dict[str, Sequence[ApiKeySection | PublishableKeySection]] = {
        "api_keys": server.api_keys,
        "publishable_keys": server.publishable_keys,
    }
    for field, entries in lists.items():
        for index, entry in enumerate(entries):
            path: FieldPath = (field, index)
            earlier = names.setdefault(entry.name, path)
            if earlier != path:
                yield (*path, "name"), f"{entry.name!r} is taken by {_spelled(earlier)}; choose another"
            earlier = keys.setdefault(entry.key, path)
            if earlier != path:
                yield (*path, "key"), f"is the same as that of {_spelled(earlier)}; every name needs its own"


def _spelled(path: FieldPath) -> str:
    return spell_path(("server", *path))


def _publishable_problems(entry: PublishableKeySection, agent_ids: Sequence[str]) -> Iterator[FieldProblem]:
    if not entry.key.startswith(PUBLISHABLE_PREFIX):
        yield ("key",), f"must begin with {PUBLISHABLE_PREFIX!r}, so that everybody sees that it is not secret"
    for index, origin in enumerate(entry.origins):
        if wrong := origin_problem(origin):
            yield ("origins", index), wrong
    for index, agent_id in enumerate(entry.agents):
        if problem := unknown_agent(agent_id, agent_ids):
            yield ("agents", index), problem


def unknown_agent(agent_id: str, agent_ids: Sequence[str]) -> str | None:
    """The problem of an id that no agent of the file has."""
    if agent_id in agent_ids:
        return None
    near = did_you_mean(agent_id, list(agent_ids)) or f"; there are: {', '.join(agent_ids) or 'none'}"
    return f"no agent has the id {agent_id!r}{near}"


def _network_problem(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        if text == "*":
            return "'*' would let everybody say where a request comes from; name the proxies' addresses: '10.0.0.2'"
        return f"{text!r} is not an address or network; write '10.0.0.2' or '10.0.0.0/8'"
    return None
