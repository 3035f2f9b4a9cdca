"""The URL of an OpenSearch store: which cluster, with which rights, and under which prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gateway.agent import Secret
from gateway.errors import ConfigurationError

DEFAULT_PREFIX = "agui-gateway"

_PARAMETERS = ("prefix", "tls", "ca", "aws_region")
# OpenSearch's rule for names of indices, and shorter, since the indices' own names follow.
_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_DEFAULT_PORT = 9200
_EXAMPLE = "opensearch://user:password@search.example.com:9200?prefix=gateway&tls=true"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. Without a `user` requests have no password; with an `aws_region` they are signed (SigV4) with
    the process's AWS credentials. `ca` is a file of certificates that are trusted instead of the system's.
    """

    host: str
    port: int = _DEFAULT_PORT
    user: str = ""
    password: Secret | None = None
    prefix: str = DEFAULT_PREFIX
    tls: bool = False
    ca: Path | None = None
    aws_region: str | None = None

    @property
    def shown(self) -> str:
        """The cluster's URL, without a password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def parse_address(url: str, directory: Path) -> Address:
    """Read `opensearch://user:password@host:port?prefix=NAME&tls=true`; percent-escapes are decoded.

    `directory` is where a relative `ca` begins.

    Raises:
        ConfigurationError: the URL is not one of an OpenSearch store.
    """
    parts, port = _split(url)
    values = _parameters(parts)
    if not parts.hostname:
        raise ConfigurationError(f"the store's URL names no host; write {_EXAMPLE}")
    if parts.path not in ("", "/"):
        raise ConfigurationError(
            f"the store's URL has the path {parts.path!r}, but it ends with the port and its parameters: {_EXAMPLE}"
        )
    prefix = values.get("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"prefix={prefix!r} cannot begin the names of indices; write lower-case letters, digits, '-', '_' and '.',"
            " beginning with a letter or digit, at most 100 characters"
        )
    tls = _truth("tls", values.get("tls", "false"))
    region = values.get("aws_region")
    if region is not None and parts.username:
        raise ConfigurationError("the store's URL has a user and an aws_region; requests are signed or have a password")
    return Address(
        host=parts.hostname,
        port=_DEFAULT_PORT if port is None else port,
        user=unquote(parts.username or ""),
        password=None if parts.password is None else Secret(unquote(parts.password)),
        prefix=prefix,
        tls=tls or region is not None,
        ca=directory / values["ca"] if "ca" in values else None,
        aws_region=region,
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError as error:
        raise ConfigurationError(f"the store's URL cannot be read: {error}; write {_EXAMPLE}") from error


def _parameters(parts: SplitResult) -> dict[str, str]:
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in values:
        if name not in _PARAMETERS:
            close = get_close_matches(name, _PARAMETERS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(_PARAMETERS)}"
            raise ConfigurationError(f"unknown parameter {name!r} in the store's URL; {hint}")
    return values


def _truth(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise ConfigurationError(f"{name}={value!r} in the store's URL is neither true nor false")
    return value == "true"
