"""JSON as model providers write it."""

from __future__ import annotations

import pytest

from gateway.wire.lenient_json import load


def test_half_a_surrogate_pair_is_read_and_nonsense_is_not() -> None:
    assert load(b'{"a": "\\ud83d"}') == {"a": "\ud83d"}
    assert load(b'"\xff"') == "\ufffd"
    for data in (b"", b"{", b"ping", b"[" * 100_000):
        with pytest.raises(ValueError, match=r".+"):
            load(data)
