"""AWS credentials, the region, and Signature Version 4 over exactly the bytes that are sent.

botocore finds the credentials and signs; its own HTTP stack is not used. Source of the signature:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError

from gateway.agent import Secret
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.http_client.clients import HttpCall

CREDENTIAL_NAMES = frozenset({"access_key", "secret_key", "session_token"})
BEDROCK_API_KEY = "bedrock_api_key"
BEDROCK_API_KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"

# Hashing takes 3 ms per megabyte: larger bodies are hashed in a thread.
_THREAD_FROM_BYTES = 200_000


class AwsSigner:
    """Signs the calls of one caller to one service. Credentials and region are read at the first use.

    `credential` may hold `access_key`, `secret_key` and `session_token`; without them botocore's own chain is used
    (environment, profiles, SSO, container and instance roles), and its short-lived credentials are renewed in time.
    `bearer_token`, if given, is sent instead of a signature.

    Raises:
        ConfigurationError: one of access_key and secret_key is there without the other, or a session_token alone.
    """

    def __init__(
        self,
        service: str,
        credential: Mapping[str, Secret],
        *,
        region: str | None = None,
        bearer_token: Secret | None = None,
    ) -> None:
        self._service = service
        self._region = region
        self._bearer_token = bearer_token
        self._credentials: Any = _given_credentials(credential)
        self._session: Any = None
        self._opening = asyncio.Lock()

    async def region(self) -> str:
        """The given region, else the one of the environment or the profile.

        Raises:
            ModelError: there is none.
        """
        if self._region is None:
            async with self._opening:
                self._region = await asyncio.to_thread(self._find_region)
        return self._region

    async def sign(self, call: HttpCall) -> HttpCall:
        """`call` with the headers that authenticate it. The call must not change afterwards.

        Raises:
            ModelError: no credentials, or none that can be renewed.
        """
        if self._bearer_token is not None:
            return replace(call, headers={**call.headers, "authorization": f"Bearer {self._bearer_token.reveal()}"})
        credentials = await self._frozen_credentials()
        region = await self.region()
        if len(call.content) >= _THREAD_FROM_BYTES:
            return await asyncio.to_thread(_signed, call, credentials, self._service, region)
        return _signed(call, credentials, self._service, region)

    async def _frozen_credentials(self) -> Any:
        if self._credentials is None:
            async with self._opening:
                if self._credentials is None:
                    self._credentials = await asyncio.to_thread(self._find_credentials)
        refresh_needed = getattr(self._credentials, "refresh_needed", None)
        if refresh_needed is None or not refresh_needed():
            return self._credentials.get_frozen_credentials()
        return await asyncio.to_thread(self._renewed_credentials)

    def _find_region(self) -> str:
        region = self._configured("region") or os.environ.get("AWS_REGION")
        if not region:
            raise ModelError(
                ModelErrorKind.INVALID,
                "no AWS region is configured: set the model's region, or AWS_DEFAULT_REGION, or one in the AWS profile",
            )
        return str(region)

    def _configured(self, name: str) -> Any:
        try:
            return self._open_session().get_config_variable(name)
        except BotoCoreError as error:
            raise _unusable(error) from error

    def _find_credentials(self) -> Any:
        try:
            credentials = self._open_session().get_credentials()
        except BotoCoreError as error:
            raise _unusable(error) from error
        if credentials is None:
            raise ModelError(
                ModelErrorKind.AUTHENTICATION,
                "no AWS credentials were found: set access_key and secret_key in the model's credential, "
                "or provide them the way AWS's own tools find them (environment, profile, role)",
            )
        return credentials

    def _renewed_credentials(self) -> Any:
        try:
            return self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise _unusable(error) from error

    def _open_session(self) -> Any:
        if self._session is None:
            self._session = botocore.session.Session()
        return self._session


def bedrock_signer(
    service: str, credential: Mapping[str, Secret], region: str | None, *, own_identity: bool = True
) -> AwsSigner:
    """Signs for Bedrock, or sends an API key: the credential's, else the environment's unless access keys are given.

    Without `own_identity` nothing is read from this process's environment: no keys, no roles, no region.

    Raises:
        ConfigurationError: one of access_key and secret_key is there without the other, or a session_token alone;
            something is missing, and the environment may not be read.
    """
    own_keys = credential.get("access_key") or credential.get("secret_key")
    api_key = credential.get(BEDROCK_API_KEY)
    if not own_identity:
        if not api_key and not own_keys:
            raise ConfigurationError(
                "the model needs a credential of its own: bedrock_api_key, or access_key and secret_key; this gateway's"
                " AWS identity is not for the agents of callers (callers.own_identity)"
            )
        if not region:
            raise ConfigurationError("the model needs a region, such as 'us-east-1'")
    if not api_key and not own_keys and (from_environment := os.environ.get(BEDROCK_API_KEY_VARIABLE)):
        api_key = Secret(from_environment)  # before the chain, as in AWS's own clients
    return AwsSigner(service, credential, region=region, bearer_token=api_key or None)


def _given_credentials(credential: Mapping[str, Secret]) -> Any:
    access_key, secret_key, token = (
        value.reveal() if (value := credential.get(name)) else None
        for name in ("access_key", "secret_key", "session_token")
    )
    if access_key and secret_key:
        return Credentials(access_key, secret_key, token)
    if access_key or secret_key:
        there, missing = ("access_key", "secret_key") if access_key else ("secret_key", "access_key")
        raise ConfigurationError(f"the credential holds {there!r} without {missing!r}: give both, or neither")
    if token:
        raise ConfigurationError("the credential holds 'session_token' without 'access_key' and 'secret_key'")
    return None


def _signed(call: HttpCall, credentials: Any, service: str, region: str) -> HttpCall:
    request = AWSRequest(method=call.method, url=call.url, headers=dict(call.headers), data=call.content)
    SigV4Auth(credentials, service, region).add_auth(request)
    return replace(call, headers=dict(request.headers.items()))


def _unusable(error: BotoCoreError) -> ModelError:
    return ModelError(
        ModelErrorKind.AUTHENTICATION,
        "the AWS credentials or profile of this server cannot be used",
        provider_message=str(error),
    )
