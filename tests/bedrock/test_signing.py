"""Where AWS credentials come from, and their renewal. That signatures hold is tested with Bedrock."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.agent import Secret
from gateway.bedrock.signing import AwsSigner
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.http_client.clients import HttpCall

CALL = HttpCall("POST", "https://service.example/path%3A1", {"content-type": "application/json"}, b"{}")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS's chain finds what a test puts into the profile file, and asks no metadata service."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "DEFAULT_REGION", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_PROFILE", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def credential_of(call: HttpCall) -> str:
    """Key, date, region and service of the signature."""
    return call.headers["Authorization"].partition("Credential=")[2].partition(",")[0]


async def test_given_keys_are_used_and_the_call_itself_does_not_change() -> None:
    keys = {"access_key": Secret("AKID"), "secret_key": Secret("secret"), "session_token": Secret("token")}
    signed = await AwsSigner("bedrock", keys, region="eu-west-1").sign(CALL)
    key, _, *scope = credential_of(signed).split("/")
    assert (key, scope) == ("AKID", ["eu-west-1", "bedrock", "aws4_request"])
    assert signed.headers["X-Amz-Security-Token"] == "token"
    assert (signed.method, signed.url, signed.content) == (CALL.method, CALL.url, CALL.content)
    assert CALL.headers == {"content-type": "application/json"}
    assert "secret" not in repr(signed)


async def test_empty_keys_are_none() -> None:
    signer = AwsSigner("bedrock", {"access_key": Secret(""), "secret_key": Secret("")}, region="eu-west-1")
    with pytest.raises(ModelError) as caught:
        await signer.sign(CALL)
    assert caught.value.kind is ModelErrorKind.AUTHENTICATION


def test_half_a_pair_of_keys_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="'access_key' without 'secret_key'"):
        AwsSigner("bedrock", {"access_key": Secret("AKID"), "secret_key": Secret("")})
    with pytest.raises(ConfigurationError, match="'session_token' without 'access_key' and 'secret_key'"):
        AwsSigner("bedrock", {"session_token": Secret("of no key")})


async def test_region_and_keys_of_the_profile_are_found(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = ap-south-1\n")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = FROMFILE\naws_secret_access_key = x\n")
    signer = AwsSigner("bedrock", {})
    signed = await asyncio.gather(*(signer.sign(CALL) for _ in range(5)))
    assert {credential_of(call).split("/")[0] for call in signed} == {"FROMFILE"}
    assert await signer.region() == "ap-south-1"


async def test_the_other_variable_for_the_region_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert await AwsSigner("bedrock", {}).region() == "sa-east-1"


def write_process(tmp_path: Path, seconds: int) -> None:
    """A profile whose credentials come from a program, and last so long; each run of it gives another key."""
    expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    program = tmp_path / "keys.py"
    program.write_text(
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        f"keys = {{'Version': 1, 'SecretAccessKey': 's', 'SessionToken': 't', 'Expiration': {expires!r}}}\n"
        "print(json.dumps({**keys, 'AccessKeyId': f'KEY{count}'}))\n"
    )
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")


@pytest.mark.parametrize(("seconds", "renewed"), [(3600, False), (300, True)])
async def test_credentials_that_expire_soon_are_renewed(tmp_path: Path, seconds: int, renewed: bool) -> None:
    signer = AwsSigner("bedrock", {}, region="eu-west-1")
    write_process(tmp_path, seconds)
    first = credential_of(await signer.sign(CALL))
    second = credential_of(await signer.sign(CALL))
    assert first.startswith("KEY")
    assert (second != first) is renewed


async def test_credentials_that_cannot_be_had_are_an_authentication_error_without_details(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {tmp_path}/missing.py\n")
    with pytest.raises(ModelError) as caught:
        await AwsSigner("bedrock", {}, region="eu-west-1").sign(CALL)
    assert (caught.value.kind, caught.value.retryable) == (ModelErrorKind.AUTHENTICATION, False)
    assert str(tmp_path) not in caught.value.message
