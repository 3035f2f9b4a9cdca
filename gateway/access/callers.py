"""The caller of a request: the owner of threads and runs, with its rights and limits.

Below: limits. Above: authentication, which identifies the caller, and the protocols' environment, which checks what it
may do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.access.limits import KeyLimits, Quota, VisitorLimits
from gateway.agent import AgentInput
from gateway.frozen import replace
from gateway.messages import INSTRUCTION_ROLES
from gateway.owners import LOCAL_OWNER
from gateway.runs.limits import RunLimits

NO_LIMITS = KeyLimits()
_IPV6_SITE_BITS = 64  # the part of an IPv6 address that one household or machine cannot change


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    `owner`: threads and runs belong to it. `key_name` is the configuration's name for the key, empty without keys.
    `agents` are the only ones this caller may use; None: all. `is_visitor`: it came with a publishable key and is an
    owner of its own. `address` is the client's, for visitors alone. `may_approve`: it may answer any owner's approvals.
    `may_administer`: it may change settings of the gateway.
    """

    owner: str
    key_name: str = ""
    limits: KeyLimits = NO_LIMITS
    agents: frozenset[str] | None = None
    is_visitor: bool = False
    address: str = ""
    may_approve: bool = False
    may_administer: bool = False

    def may_use(self, agent_id: str) -> bool:
        return self.agents is None or agent_id in self.agents

    def run_quotas(self) -> Sequence[Quota]:
        """The quotas of a new run, the narrowest first."""
        limits = self.limits
        if limits is NO_LIMITS:
            return ()
        of_key = Quota(f"key {self.key_name}", "", limits.runs_per_minute, limits.concurrent_runs)
        if not isinstance(limits, VisitorLimits):
            return () if of_key.per_minute is None and of_key.at_once is None else (of_key,)
        subject = address_subject(self.key_name, self.address)
        return (
            Quota(self.owner, "visitor_", limits.visitor_runs_per_minute, limits.visitor_concurrent_runs),
            Quota(subject, "address_", limits.address_runs_per_minute),
            of_key,
        )

    def run_limits(self) -> RunLimits | None:
        """How large this caller's new run may be; None: not limited."""
        limits = self.limits
        if limits is NO_LIMITS:
            return None
        stored = limits.max_stored_bytes if isinstance(limits, VisitorLimits) else None
        found = RunLimits(limits.max_message_bytes, limits.max_input_bytes, stored)
        return None if found == _ANYTHING else found

    def admitted(self, given: AgentInput) -> AgentInput:
        """The input without the parts that this caller may not send: a visitor's system and developer messages, its
        options, and a tool that the model has to call.
        """
        if not self.is_visitor:
            return given
        if given.terms.options is not None:
            given = replace(given, terms=replace(given.terms, options=None))
        if given.terms.forced_tool:
            given = replace(given, terms=replace(given.terms, forced_tool=""))
        if any(message.role in INSTRUCTION_ROLES for message in given.sent.messages):
            kept = tuple(message for message in given.sent.messages if message.role not in INSTRUCTION_ROLES)
            given = replace(given, sent=replace(given.sent, messages=kept))
        return given


_ANYTHING = RunLimits()
LOCAL_CALLER = Caller(LOCAL_OWNER)
"""Everybody, where no keys are configured."""


def bearer_in(authorization: str | None) -> str:
    """The token of `Authorization: Bearer ...`; empty where there is none."""
    if authorization is None:
        return ""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def visitor_quotas(key_name: str, limits: VisitorLimits, address: str) -> Sequence[Quota]:
    """The quotas of a new visitor, the narrowest first."""
    return (
        Quota(address_subject(key_name, address), "address_", limits.address_visitors_per_minute),
        Quota(f"key {key_name}", "", limits.visitors_per_minute),
    )


def address_subject(key_name: str, address: str) -> str:
    """The subject that a client address counts as; an IPv6 address counts as its network."""
    if ":" in address:
        try:
            parsed = ipaddress.IPv6Address(address.partition("%")[0])
        except ValueError:
            pass
        else:
            mapped = parsed.ipv4_mapped
            address = str(mapped or ipaddress.IPv6Network((parsed, _IPV6_SITE_BITS), strict=False).network_address)
    return f"address {key_name} {address[:64]}"
