"""The two hosts of Bedrock's Responses API, and each model's host and path. Pure.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html and
https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html. `bedrock-runtime` serves models by the ids of their
inference profiles (`us.openai.gpt-5.6`), never in the background and without tools of its own. `bedrock-mantle` serves
them by their bare ids, under one of two paths; no API says which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Host:
    """One of the two. `service`: the name that a signature is scoped to; `paths`: where it may serve a model."""

    name: str
    service: str
    paths: tuple[str, ...]

    def url(self, region: str) -> str:
        """The host's URL in a region, without a path."""
        if self is MANTLE:
            return f"https://bedrock-mantle.{region}.api.aws"
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://bedrock-runtime.{region}.{domain}"


# The hosts as patterns of whole URLs, see http_client.endpoint_policy.
RUNTIME_HOSTS = r"^https://bedrock-runtime(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/.*$"
MANTLE_HOSTS = r"^https://bedrock-mantle\.[a-z0-9-]+\.api\.aws/.*$"

RUNTIME = Host("bedrock-runtime", "bedrock", ("/openai/v1",))
MANTLE = Host("bedrock-mantle", "bedrock-mantle", ("/v1", "/openai/v1"))

_PROFILE = re.compile(r"(?:us|eu|apac|us-gov|jp|au|ca|global)\.|arn:")
_VERSION = re.compile(r"-(?:v?\d+):\d+$")
# Models that Mantle serves under /openai/v1, by the beginning of their ids; the others are under /v1.
_UNDER_OPENAI = re.compile(r"openai\.gpt-[5-9]|xai\.grok-|google\.gemma-4")
_HOST = re.compile(r"(bedrock-runtime|bedrock-mantle)(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_ARN_REGION = re.compile(r"arn:[^:]+:[a-z]+:([a-z0-9-]+):")
_WRONG_PATH = re.compile(r"(?:isn't|is not|not) supported (?:on|by|for) th(?:is|e) (?:route|path|endpoint)", re.I)


def host_of(model_id: str, endpoint: str | None) -> Host:
    """The host that serves a model. The endpoint decides, else the form of the id."""
    if endpoint and (found := _HOST.fullmatch(urlsplit(endpoint).hostname or "")):
        return MANTLE if found[1] == MANTLE.name else RUNTIME
    return RUNTIME if _PROFILE.match(model_id) else MANTLE


def wire_model_id(host: Host, model_id: str) -> str:
    """The model's id in requests: Mantle's ids lack the version (`-1:0`) that ids for Converse have."""
    return _VERSION.sub("", model_id) if host is MANTLE else model_id


def paths_of(host: Host, model_id: str) -> tuple[str, ...]:
    """The base paths to try, the likeliest first."""
    return host.paths[::-1] if _UNDER_OPENAI.match(model_id) else host.paths


def region_in(model_id: str, endpoint: str | None) -> str | None:
    """The region in an AWS endpoint, else the one in an ARN."""
    if endpoint and (found := _HOST.fullmatch(urlsplit(endpoint).hostname or "")):
        return found[2]
    return found[1] if (found := _ARN_REGION.match(model_id)) else None


def is_wrong_path(status: int, message: str) -> bool:
    """Whether a refusal says that the model is served under the other path."""
    return status in (400, 404) and bool(_WRONG_PATH.search(message[:4000]))
