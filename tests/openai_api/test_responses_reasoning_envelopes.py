"""The signed envelopes of reasoning: what clients keep, and what comes back of it."""

from __future__ import annotations

import pytest

from gateway.messages import Opaque, ReasoningBlock
from gateway.openai_api.reasoning_envelopes import ReasoningEnvelopes

ENVELOPES = ReasoningEnvelopes(bytes(32))
OPAQUE = Opaque("anthropic", "claude", "signature", "c2lnbmVk")


@pytest.mark.parametrize("opaque", [OPAQUE, None])
@pytest.mark.parametrize("text", ["Sums need the tool.", ""])
def test_an_envelope_gives_back_text_and_opaque_data(text: str, opaque: Opaque | None) -> None:
    sealed = ENVELOPES.seal("alice", text, opaque)

    assert sealed == ENVELOPES.seal("alice", text, opaque)  # a renderer's frames are the same every time
    assert ENVELOPES.opened("alice", sealed) == ReasoningBlock(text, opaque=opaque)


def test_a_forged_envelope_or_another_owners_or_another_keys_opens_nothing() -> None:
    sealed = ENVELOPES.seal("alice", "Sums need the tool.", OPAQUE)
    version, inside, signature = sealed.split(".")
    other = ENVELOPES.seal("alice", "Something else.", OPAQUE).split(".")[1]

    assert ENVELOPES.opened("bob", sealed) is None
    assert ReasoningEnvelopes(bytes([1] * 32)).opened("alice", sealed) is None
    for forged in (
        f"{version}.{other}.{signature}",
        f"r2.{inside}.{signature}",
        f"{version}.{inside}",
        f"{version}.{inside}.é\ud800",
        "gAAAAABo-of-another-provider",
        "..",
        "",
    ):
        assert ENVELOPES.opened("alice", forged) is None
