"""The URL of an OpenSearch cluster: where it is, with which rights, and under which prefix the store is in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gateway.agent import Secret
from gateway.errors import ConfigurationError

SCHEME = "opensearch"
DEFAULT_PREFIX = "agui-gateway"

_OF_A_STORE = ("prefix", "tls", "ca", "aws_region")
_OF_A_SEARCH = ("tls", "ca", "aws_region")
# OpenSearch's rule for names of indices, and shorter, since the indices' own names follow.
_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_DEFAULT_PORT = 9200
_EXAMPLES = {
    "store": "opensearch://user:password@search.example.com:9200?prefix=gateway&tls=true",
    "search engine": "opensearch://user:password@search.example.com:9200?tls=true",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is. Without a `user` requests have no password; with an `aws_region` they are signed (SigV4) with
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
    return _parse(url, directory, "store", _OF_A_STORE)


def parse_search_address(url: str, directory: Path) -> Address:
    """As parse_address, of a search engine, whose URL has no prefix; that of the address means nothing."""
    return _parse(url, directory, "search engine", _OF_A_SEARCH)


def _parse(url: str, directory: Path, what: str, known: Sequence[str]) -> Address:
    parts, port = _split(url, what)
    values = _parameters(parts, what, known)
    if not parts.hostname:
        raise ConfigurationError(f"the {what}'s URL names no host; write {_EXAMPLES[what]}")
    if parts.path not in ("", "/"):
        ending = f"but it ends with the port and its parameters: {_EXAMPLES[what]}"
        raise ConfigurationError(f"the {what}'s URL has the path {parts.path!r}, {ending}")
    prefix = values.get("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"prefix={prefix!r} cannot begin the names of indices; write lower-case letters, digits, '-', '_' and '.',"
            " beginning with a letter or digit, at most 100 characters"
        )
    tls = _truth("tls", values.get("tls", "false"), what)
    region = values.get("aws_region")
    if region is not None and parts.username:
        raise ConfigurationError(
            f"the {what}'s URL has a user and an aws_region; requests are signed or have a password"
        )
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


def _split(url: str, what: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError as error:
        raise ConfigurationError(f"the {what}'s URL cannot be read: {error}; write {_EXAMPLES[what]}") from error


def _parameters(parts: SplitResult, what: str, known: Sequence[str]) -> dict[str, str]:
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}"
            raise ConfigurationError(f"unknown parameter {name!r} in the {what}'s URL; {hint}")
    return values


def _truth(name: str, value: str, what: str) -> bool:
    if value not in ("true", "false"):
        raise ConfigurationError(f"{name}={value!r} in the {what}'s URL is neither true nor false")
    return value == "true"
