"""The Responses API of Amazon Bedrock: on `bedrock-runtime` and on `bedrock-mantle`.

`bedrock/responses_hosts.py` says which of the two hosts serves a model, and under which path; an `endpoint` of AWS
decides it, too. Calls are signed for the host's own service, or carry a Bedrock API key. Requests and streams are those
of every Responses API (`openai/responses_model.py`).

For a `stateful` model the host keeps the conversation too, in its region. `compute_environment` is sent as the field of
that name; only Mantle accepts it. `params` are put into the body last.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from gateway.agent import ModelSettings
from gateway.bedrock.responses_hosts import (
    MANTLE,
    MANTLE_HOSTS,
    RUNTIME_HOSTS,
    Host,
    host_of,
    is_wrong_path,
    paths_of,
    region_in,
    wire_model_id,
)
from gateway.bedrock.signing import BEDROCK_API_KEY, CREDENTIAL_NAMES, bedrock_signer
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpCall
from gateway.messages import JsonObject
from gateway.model import ModelEnvironment, ModelProvider
from gateway.openai.responses import profile_of, response_url, responses_url
from gateway.openai.responses_model import HEADERS, ResponsesModel, identity
from gateway.providers.access import checked_address
from gateway.providers.error_bodies import ProviderError

logger = logging.getLogger(__name__)

NAME = "bedrock/responses"


class _Endpoint:
    """A model's address, which names the region unless it is a private endpoint, and the scope of its signatures."""

    def __init__(self, settings: ModelSettings, host: Host, *, own_identity: bool = True) -> None:
        named = region_in(settings.model_id, settings.endpoint)
        in_endpoint = region_in("", settings.endpoint)
        if in_endpoint and settings.region and in_endpoint != settings.region:
            raise ConfigurationError(
                f"the endpoint is in {in_endpoint!r}, the region is {settings.region!r}; write the same, or one of them"
            )
        self._host = host
        self._signer = bedrock_signer(
            host.service, settings.credential, settings.region or named, own_identity=own_identity
        )
        self._base = settings.endpoint.rstrip("/") if settings.endpoint else None
        # An endpoint with a path is the model's address; only the region may be unknown.
        has_path = self._base is not None and urlsplit(self._base).path not in ("", "/")
        self._paths = [""] if has_path else list(paths_of(host, settings.model_id))

    async def create(self, body: bytes) -> HttpCall:
        return await self._signer.sign(HttpCall("POST", await self._url(), HEADERS, body))

    async def existing(self, response_id: str, *, method: str = "GET", action: str = "", query: str = "") -> HttpCall:
        url = response_url(await self._url(), response_id, action, query)
        return await self._signer.sign(HttpCall(method, url, HEADERS))

    async def _url(self) -> str:
        base = self._base or self._host.url(await self._signer.region())
        return responses_url(base + self._paths[0])

    def learn(self, call: HttpCall, status: int, error: ProviderError) -> bool:
        if not is_wrong_path(status, error.message):
            return False
        if not urlsplit(call.url).path.startswith(
            urlsplit(responses_url((self._base or "https://h") + self._paths[0])).path
        ):
            return True  # another request has found the right path meanwhile
        if len(self._paths) < 2:
            return False
        wrong, *self._paths = self._paths
        logger.info("Bedrock serves a model under its other path", extra={"wrong": wrong, "right": self._paths[0]})
        return True


def open_bedrock_responses(settings: ModelSettings, environment: ModelEnvironment) -> ResponsesModel:
    """A model. Region and credentials that are not in the settings are looked up at the first call.

    Raises:
        ConfigurationError: no model_id, an unknown name among the credentials, half a pair of keys, an endpoint that is
            no URL, or one in another region.
    """
    if not settings.model_id:
        raise ConfigurationError(f"{NAME} needs a model_id, such as 'us.openai.gpt-5.6' or 'openai.gpt-oss-120b'")
    if unknown := sorted(set(settings.credential) - PROVIDER.credentials):
        known = ", ".join(sorted(PROVIDER.credentials))
        raise ConfigurationError(f"{NAME} knows no credential {unknown[0]!r}; there are: {known}")
    host = host_of(settings.model_id, settings.endpoint)
    if settings.endpoint:
        checked_address(settings.endpoint, responses_url)
    if settings.compute_environment and host is not MANTLE:
        raise ConfigurationError(
            f"compute_environment is known on bedrock-mantle only, and {settings.model_id!r} is on {host.name}; "
            f"write the model's bare id, without its region"
        )
    if settings.background and host is not MANTLE:
        raise ConfigurationError(
            f"background is known on bedrock-mantle only, and {settings.model_id!r} is on {host.name}; "
            f"write the model's bare id, without its region"
        )
    params: JsonObject = {**settings.params}
    if settings.compute_environment:
        params.setdefault("compute_environment", settings.compute_environment)
    return ResponsesModel(
        NAME,
        settings,
        _Endpoint(settings, host, own_identity=environment.own_identity),
        profile_of(urlsplit(host.url("us-east-1")).hostname or "", settings.model_id),
        environment,
        holder=_holder(settings, host),
        wire_model_id=wire_model_id(host, settings.model_id),
        params=params,
    )


def _holder(settings: ModelSettings, host: Host) -> tuple[str, ...]:
    """The account, the region and the host in which responses are kept."""
    named = (settings.credential.get(name) for name in (BEDROCK_API_KEY, "access_key"))
    own = next((secret.reveal() for secret in named if secret), "")
    region = settings.region or region_in(settings.model_id, settings.endpoint) or ""
    return host.name, settings.endpoint or "", region, identity(own)


PROVIDER = ModelProvider(
    NAME,
    open_bedrock_responses,
    credentials=CREDENTIAL_NAMES | {BEDROCK_API_KEY},
    options=frozenset({"params", "compute_environment", "stateful", "background"}),
    from_callers=True,
    endpoints=(RUNTIME_HOSTS, MANTLE_HOSTS),
)
