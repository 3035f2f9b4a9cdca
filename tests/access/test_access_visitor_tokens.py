"""Visitors' tokens: written one way, read only as they were written."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.access.visitor_tokens import VisitorToken, new_visitor_id, read_token, write_token
from gateway.configuration.sections import ApiKeySection
from gateway.owners import visitor_owner

SECRET = b"s" * 32
TOKEN = VisitorToken("shop", "0" * 31 + "1", 1_800_000_000, 1_807_776_000)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


def test_the_format_is_the_documented_one() -> None:
    signed = "vt1~shop~00000000000000000000000000000001~1800000000~1807776000"
    mac = base64.urlsafe_b64encode(hmac.new(SECRET, signed.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()
    assert write_token(TOKEN, SECRET) == f"{signed}~{mac}"
    assert re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", write_token(TOKEN, SECRET)), "what RFC 6750 lets a bearer be"


@given(NAMES, st.integers(0, 2**40), st.integers(0, 2**40))
def test_what_was_written_is_read(name: str, issued: int, expires: int) -> None:
    token = VisitorToken(name, new_visitor_id(), issued, expires)
    assert read_token(write_token(token, SECRET), SECRET) == token


@given(st.integers(0, 200), st.characters(codec="utf-8"))
def test_one_other_character_anywhere_is_no_token(place: int, character: str) -> None:
    text = write_token(TOKEN, SECRET)
    place %= len(text)
    changed = text[:place] + character + text[place + 1 :]
    assert (read_token(changed, SECRET) is not None) is (changed == text)


@given(st.text(max_size=300))
def test_no_text_is_a_token_by_chance(text: str) -> None:
    assert read_token(text, SECRET) is None
    assert read_token(f"vt1~{text}", SECRET) is None
    assert read_token(f"vt1~{'~' * len(text)}", SECRET) is None


def test_another_secret_or_another_claim_is_none() -> None:
    text = write_token(TOKEN, SECRET)
    assert read_token(text, b"t" * 32) is None
    assert read_token(text[:-1], SECRET) is None
    assert read_token(text + "A", SECRET) is None
    for other in (
        dataclasses.replace(TOKEN, key_name="shop2"),
        dataclasses.replace(TOKEN, visitor_id="f" * 32),
        dataclasses.replace(TOKEN, expires_at=TOKEN.expires_at + 1),
    ):
        forged = write_token(other, SECRET).rpartition("~")[0] + "~" + text.rpartition("~")[2]
        assert read_token(forged, SECRET) is None


def test_visitors_have_ids_of_their_own() -> None:
    ids = {new_visitor_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", id) for id in ids)


@given(NAMES)
def test_no_api_keys_name_is_a_visitors_owner(name: str) -> None:
    [pattern] = [rule.pattern for rule in ApiKeySection.model_fields["name"].metadata]
    assert not re.search(pattern, visitor_owner(name, new_visitor_id()))
    assert visitor_owner("a", "b") != visitor_owner("a-b", "")
