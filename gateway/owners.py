"""Whose a thread or run is, by its owner's name: of a key, or of a visitor of a website.

Nothing of ours is below. No API key's name has a `:`, and no publishable key's.
"""

from __future__ import annotations

_VISITORS = "visitor:"


def visitor_owner(key_name: str, visitor_id: str) -> str:
    """The owner of what a visitor does who came with the publishable key of that name."""
    return f"{_VISITORS}{key_name}:{visitor_id}"


def site_of(owner: str) -> str | None:
    """The name of the publishable key that the visitor came with; None for anybody else."""
    return owner.split(":", 2)[1] if is_visitors(owner) else None


def is_visitors(owner: str) -> bool:
    """Whether a stranger owns it, and nobody with a key."""
    return owner.startswith(_VISITORS)


def may_approve(owner: str, approvers: str | None) -> bool:
    """Whether a call on the owner's own thread is the owner's to approve, by the `approvers` of its tool."""
    return approvers == "callers" or (approvers is None and not is_visitors(owner))
