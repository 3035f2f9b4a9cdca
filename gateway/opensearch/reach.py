"""Looks at whether a cluster can be reached, and knows its user: the first things that keep anything from working.

Below: cluster. Above: doctor, search_doctor.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from gateway.errors import ConfigurationError, StoreError
from gateway.findings import Finding, Level
from gateway.opensearch.address import Address
from gateway.opensearch.cluster import Cluster, reason_of, trusted

_REACH_SECONDS = 5.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


async def reach(address: Address) -> Finding:
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


async def known_user(cluster: Cluster) -> Finding:
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
            return Finding("user", Level.PROBLEM, f"{address.shown} speaks TLS only", "add tls=true to the URL")
        raise error
    who = "the signed requests" if address.aws_region else f"the user {address.user!r}"
    if answer.status == 401:
        if not (address.user or address.aws_region):
            remedy = "write them into the URL: opensearch://USER:PASSWORD@HOST:PORT"
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
