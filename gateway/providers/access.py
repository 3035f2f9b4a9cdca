"""The address and the key of a model's provider, and the meaning of a refused call.

Below: agent, http_client, failures. Above: the models and what they share.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.agent import ModelSettings, Secret
from gateway.errors import ConfigurationError, ModelError
from gateway.http_client.clients import HttpStream
from gateway.providers.error_bodies import parse_error_body
from gateway.providers.failures import failure

_ERROR_BYTES = 65_536


def checked_address(endpoint: str, address: Callable[[str], str]) -> str:
    """`address(endpoint)`.

    Raises:
        ConfigurationError: the endpoint cannot be used; `address` raised ValueError.
    """
    try:
        return address(endpoint)
    except ValueError as error:
        shown = "of this model" if "@" in endpoint else repr(endpoint)  # it may hold a password
        raise ConfigurationError(f"the endpoint {shown} {error}") from error


def key_header(settings: ModelSettings, name: str, default_endpoint: str, header: str = "") -> dict[str, str]:
    """The header that carries the credential `name`: `header`, or `Authorization` with a bearer token. Empty if
    there is no such credential, as for many private endpoints.

    Raises:
        ConfigurationError: the provider's own endpoint needs a credential, or it has characters that no header can
            carry.
    """
    key = settings.credential.get(name, Secret("")).reveal().strip()
    if not key and settings.endpoint is None:
        raise ConfigurationError(f"{default_endpoint} needs a credential: set {name}")
    if not key.isascii() or not (key.isprintable() or not key):
        raise ConfigurationError(f"the credential {name} holds characters that no key has")
    if not key:
        return {}
    return {header: key} if header else {"authorization": f"Bearer {key}"}


async def refusal(response: HttpStream, now: float) -> ModelError:
    """Why the provider answered with another status than 200. `now` is Unix time in seconds."""
    try:
        body = await response.read(_ERROR_BYTES)
    except ModelError:
        body = b""
    return failure(parse_error_body(body), response.status, response.headers, now, address=response.address, body=body)
