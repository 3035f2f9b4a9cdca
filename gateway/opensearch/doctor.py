"""Looks at a cluster without changing it: whether a gateway could keep its store there.

Below: cluster, indices, cluster_findings. Above: the part. It goes from the outside in, and ends where it cannot go on:
reach, user, version, rights, then what the cluster says of itself. Rights are tried on an index that never exists: who
has the right hears that it is not there.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from gateway.errors import ConfigurationError, StoreError, StoreFullError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch import cluster_findings
from gateway.opensearch.address import Address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster, reason_of, trusted
from gateway.opensearch.indices import check_version
from gateway.opensearch.membership import list_path, read_gateways
from gateway.opensearch.sources import Sources
from gateway.store import Finding, Gateway, Level, StoreEnvironment

_REACH_SECONDS = 5.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NEWEST_MAJOR = 3
_REFUSED = (401, 403)
# Managed clusters have not all of the pages that are read here; 429 and what is above 500 is tried again.
_UNREADABLE = (400, 401, 403, 404, 405)

_ROLE = (
    "give the user a role with the cluster permissions cluster_composite_ops and cluster_monitor, and on '{prefix}-*'"
    " the index permissions crud, create_index and manage"
)


class _Right(NamedTuple):
    """A request that changes nothing, whoever sends it. `{index}` is an index that is not there."""

    what: str
    method: str
    path: str
    body: JsonValue | bytes = None


_RIGHTS: Final = (
    _Right("read documents", "GET", "/{index}/_doc/none"),
    _Right("search", "POST", "/{index}/_search", {"size": 0}),
    # what is not an alias is not written
    _Right("write documents", "PUT", "/{index}/_doc/none?require_alias=true", {}),
    _Right("read many documents at once", "POST", "/{index}/_mget", {"ids": ["none"]}),
    _Right("delete documents", "DELETE", "/{index}/_doc/none"),
    _Right("refresh indices", "POST", "/{index}/_refresh"),
    _Right("read statistics of indices", "GET", "/{index}/_stats"),
    _Right("read settings of indices", "GET", "/{index}/_settings"),
    _Right("read mappings", "GET", "/{index}/_mapping"),
    _Right("change mappings", "PUT", "/{index}/_mapping", {"properties": {}}),
    # an index of no shards is none
    _Right("make indices", "PUT", "/{index}", {"settings": {"index.number_of_shards": 0}}),
    _Right(
        "write many documents at once",
        "POST",
        "/_bulk",
        b'{"index":{"_index":"{index}","_id":"none","require_alias":true}}\n{}\n',
    ),
)


async def examine(address: Address, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """What there is to say of the cluster, and of the store's indices in it."""
    if not environment.master_keys:
        yield Finding(
            "keys",
            Level.WARNING,
            "there are no master keys: documents with secrets, such as agents with credentials, are refused",
            "add a key to server.master_keys: openssl rand -base64 32",
        )
    reach = await _reach(address)
    yield reach
    if reach.level is Level.PROBLEM:
        return
    cluster = Cluster(address)
    try:
        async with aclosing(_answers(cluster, environment)) as findings:
            async for finding in findings:
                yield finding
    except StoreError as error:
        yield Finding("cluster", Level.PROBLEM, error.message, "try again when the cluster answers")
    finally:
        await cluster.close()


async def _answers(cluster: Cluster, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """What the cluster says. Raises StoreError where it says nothing."""
    user = await _user(cluster)
    yield user
    if user.level is Level.PROBLEM:
        return
    version = await _version(cluster)
    yield version
    if version.level is Level.PROBLEM:
        return
    yield await _rights(cluster)
    look = _Looks(cluster)
    prefix = cluster.address.prefix
    plugins = await look.at("/_nodes/plugins?filter_path=nodes.*.plugins.name", "plugins")
    settings = await look.at(f"/{prefix}-*/_settings?flat_settings=true&expand_wildcards=all", "settings of indices")
    mappings = await look.at(f"/{prefix}-*/_mapping?expand_wildcards=all", "mappings")
    templates = await look.at("/_index_template", "index templates")
    older = await look.at("/_template", "older index templates")
    health = await look.at("/_cluster/health", "health")
    own_health = await look.at(f"/_cluster/health/{prefix}-*", "health of the store's indices")
    limits = await look.at("/_cluster/settings?flat_settings=true&include_defaults=true", "settings of the cluster")
    asked = environment.clock.now()
    nodes = await look.at("/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.timestamp,nodes.*.fs.total", "nodes")
    answered = environment.clock.now()
    for finding in (
        *cluster_findings.of_plugins(plugins),
        *cluster_findings.of_indices(prefix, settings, mappings),
        *cluster_findings.of_templates(prefix, settings, templates, older),
        *cluster_findings.of_health(own_health),
        *cluster_findings.of_blocks(prefix, limits, settings),
        *cluster_findings.of_shards(prefix, limits, settings, health),
        *cluster_findings.of_nodes(nodes, asked, answered),
    ):
        yield finding
    yield await _gateways(cluster, look)
    if look.unread:
        yield Finding("not read", Level.OK, f"the user may not read, or the cluster has not: {', '.join(look.unread)}")


async def _gateways(cluster: Cluster, look: _Looks) -> Finding:
    """Which gateways use the prefix."""
    found: list[Gateway] = []
    if await look.at(list_path(cluster), "gateways on the prefix") is not None:
        found = await read_gateways(Sources(cluster, Bulks(cluster)))
    names = ", ".join(each.name for each in found)
    text = f"uses the prefix, or was killed while it did: {names}" if names else "no gateway uses the prefix"
    return Finding("gateway", Level.OK, text)


class _Looks:
    """Reads pages of the cluster, and notes those that it may not read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.unread: list[str] = []

    async def at(self, path: str, what: str) -> JsonObject | None:
        answer = await self._cluster.request("GET", path, allowed=_UNREADABLE)
        if answer.status >= 400:
            self.unread.append(what)
            return None
        return answer.body


# --- reach


async def _reach(address: Address) -> Finding:
    """Whether a connection comes about: the name, the port, the certificate."""

    def problem(text: str, remedy: str) -> Finding:
        return Finding("connection", Level.PROBLEM, text, remedy)

    where = address.shown
    try:
        tls = trusted(address) if address.tls else None
    except ConfigurationError as error:
        text, _, remedy = error.message.partition("; ")
        return problem(text, remedy)
    try:
        await _connect(address, tls)
    except socket.gaierror as error:
        return problem(f"the name {address.host!r} has no address ({reason_of(error)})", "correct the host, or its DNS")
    except ssl.SSLCertVerificationError as error:
        return problem(f"the certificate of {where} is not trusted: {error.verify_message}", _certificate_remedy(error))
    except _NoTlsError as error:
        return problem(f"{where} does not speak TLS ({error})", "leave 'tls=true' out, or correct the port")
    except ConnectionRefusedError:
        return problem(f"nothing listens at {where}", "start the cluster, or correct the host and the port")
    except TimeoutError:
        remedy = "correct the host and the port, and see whether a firewall is in between"
        return problem(f"{where} does not answer within {_REACH_SECONDS:g} seconds", remedy)
    except OSError as error:
        return problem(f"{where} cannot be reached ({reason_of(error)})", "correct the host and the port")
    if not address.tls and address.password is not None and address.host not in _LOCAL:
        remedy = "let the cluster speak TLS, and add tls=true"
        return Finding("connection", Level.WARNING, f"the password goes to {where} in plain text", remedy)
    return Finding("connection", Level.OK, where)


class _NoTlsError(Exception):
    """A connection came about, and a TLS handshake did not, for another reason than the certificate."""


async def _connect(address: Address, tls: ssl.SSLContext | None) -> None:
    async with asyncio.timeout(_REACH_SECONDS):
        _, writer = await asyncio.open_connection(address.host, address.port)
    try:
        if tls is not None:
            async with asyncio.timeout(_REACH_SECONDS):
                await writer.start_tls(tls, server_hostname=address.host)
    except ssl.SSLCertVerificationError:
        raise
    except OSError as error:
        raise _NoTlsError("no answer" if isinstance(error, TimeoutError) else reason_of(error)) from error
    finally:
        writer.transport.abort()


def _certificate_remedy(error: ssl.SSLCertVerificationError) -> str:
    words = error.verify_message.lower()
    if "mismatch" in words or "not valid for" in words:
        return "name the host as its certificate does"
    if "expired" in words or "not yet valid" in words:
        return "renew the certificate, or set the clock of this machine"
    return "add ca=FILE with the certificate of the authority that signed it"


# --- user, version, rights


async def _user(cluster: Cluster) -> Finding:
    address = cluster.address
    try:
        answer = await cluster.request("GET", "/", allowed=(401, 403, 404))
    except ValueError:  # what signs requests has no credentials
        text = "the process has no AWS credentials, which sign the requests for aws_region"
        return Finding(
            "user", Level.PROBLEM, text, "give it a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    except StoreError as error:
        if not address.tls and await _speaks_tls(address):
            return Finding("user", Level.PROBLEM, f"{address.shown} speaks TLS only", "add tls=true to the store's URL")
        raise error
    who = "the signed requests" if address.aws_region else f"the user {address.user!r}"
    if answer.status == 401:
        if not (address.user or address.aws_region):
            remedy = "write them into the store's URL: opensearch://USER:PASSWORD@HOST:PORT"
            return Finding("user", Level.PROBLEM, "the cluster wants a user and a password", remedy)
        return Finding("user", Level.PROBLEM, f"the cluster does not know {who}, or the password", "correct them")
    if answer.status == 403:
        remedy = "let the cluster's access policy, or the user's role, admit the gateway"
        return Finding("user", Level.PROBLEM, f"the cluster refuses {who if address.user else 'this machine'}", remedy)
    return Finding("user", Level.OK, who if address.user or address.aws_region else "none")


async def _speaks_tls(address: Address) -> bool:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    try:
        await _connect(address, tls)
    except (OSError, _NoTlsError):
        return False
    return True


async def _version(cluster: Cluster) -> Finding:
    try:
        number = await check_version(cluster)
    except ConfigurationError as error:
        text, _, remedy = error.message.partition("; ")
        return Finding("version", Level.PROBLEM, text, remedy)
    if number.partition(".")[0].isdigit() and int(number.partition(".")[0]) > _NEWEST_MAJOR:
        remedy = f"a version from 2.11 to {_NEWEST_MAJOR}.x is known to work"
        return Finding("version", Level.WARNING, f"OpenSearch {number} says more than this gateway knows", remedy)
    return Finding("version", Level.OK, f"OpenSearch {number}")


async def _rights(cluster: Cluster) -> Finding:
    missing = [right.what for right in _RIGHTS if not await _has(cluster, right)]
    names = f"'{cluster.address.prefix}-*'"
    if missing:
        remedy = _ROLE.format(prefix=cluster.address.prefix)
        return Finding("rights", Level.PROBLEM, f"the user may not, on {names}: {', '.join(missing)}", remedy)
    return Finding("rights", Level.OK, f"the user may do on {names} what a gateway does")


async def _has(cluster: Cluster, right: _Right) -> bool:
    index = cluster.index("doctor-none")
    path, body = right.path.replace("{index}", index), right.body
    if isinstance(body, bytes):
        body = body.replace(b"{index}", index.encode())
    try:
        answer = await cluster.request(right.method, path, body, allowed=_UNREADABLE)
    except StoreFullError:  # of_blocks says so
        return True
    items = answer.body.get("items")
    results = items if isinstance(items, list) else []
    told: list[tuple[JsonValue, JsonObject]] = [(answer.status, answer.body)]
    told += [(each.get("status"), each) for each in (cluster_findings.member(item, "index") for item in results)]
    return not any(status in _REFUSED and not _is_block(said) for status, said in told)


def _is_block(said: JsonObject) -> bool:
    """Whether the index or the cluster is closed to everybody, which of_blocks says."""
    return str(cluster_findings.member(said, "error").get("type")).endswith("block_exception")
