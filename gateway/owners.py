"""Owners of threads and runs: the name of a key, or of a visitor of a website.

Below: the standard library. Names of API keys and publishable keys have no `:`.
"""

from __future__ import annotations

GATEWAY = ":gateway"
"""The owner of data that belongs to the gateway itself."""

LOCAL_OWNER = "local"
"""The owner of everything where no keys are configured."""

_VISITORS = "visitor:"


def visitor_owner(key_name: str, visitor_id: str) -> str:
    """The owner name of a visitor who came with the publishable key of that name."""
    return f"{_VISITORS}{key_name}:{visitor_id}"


def site_of(owner: str) -> str | None:
    """The name of the visitor's publishable key; None for any other owner."""
    return owner.split(":", 2)[1] if is_visitors(owner) else None


def is_visitors(owner: str) -> bool:
    """Whether the owner is a visitor."""
    return owner.startswith(_VISITORS)


def key_of(owner: str) -> str | None:
    """The name of the owner's API key; None for visitors, for the gateway and for whoever needs no key. A key may have
    the name of the latter, and is then not told apart.
    """
    return None if not owner or ":" in owner or owner == LOCAL_OWNER else owner


OWN_KEY = "owner"
"""The `approvers` of a question whose tool names none."""


def may_approve(owner: str, approvers: str | None) -> bool:
    """Whether the owner may approve calls on its own threads, by the `approvers` of the tool or of the question."""
    return approvers == "callers" or (approvers in (None, OWN_KEY) and not is_visitors(owner))
