"""Regular expressions for the URLs that callers' models and tools may reach. Pure.

Above: http_client.endpoint_policy, which asks them before every call; the configuration and ml-commons' settings, which
check them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yarl

from gateway.errors import ConfigurationError

_SCHEME_END = "://"
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EndpointPattern:
    """A regular expression for whole URLs. Its part for the authority (`host` or `host:port`) must match the authority
    of the URL by itself, too.

    Otherwise `https://api\\..*\\.example\\.com/.*` would match `https://api.evil.test/x.example.com/`: `.*` does not
    stop at a slash. A pattern without a path that matches an origin (`https://api\\.example\\.com`) matches all URLs of
    the origin: `is_origin`.
    """

    url: re.Pattern[str]
    authority: re.Pattern[str]
    is_origin: bool = False

    @classmethod
    def parse(cls, text: str) -> EndpointPattern:
        """The pattern in `text`.

        Raises:
            ConfigurationError: it has no part for the authority, or is no regular expression.
        """
        _, found, rest = text.partition(_SCHEME_END)
        authority, slash, _ = rest.partition("/")
        authority = authority.removesuffix("$")
        if not found or not authority:
            raise ConfigurationError(
                f"the pattern {text!r} names no host; write what the whole URL has to match, with the host between "
                "'://' and the next '/', as in '^https://api\\.example\\.com/.*$'"
            )
        try:
            return cls(re.compile(text), re.compile(authority), is_origin=not slash)
        except re.error as error:
            raise ConfigurationError(
                f"the pattern {text!r} is not a regular expression ({error}); the part between '://' and the next '/' "
                "has to be one by itself"
            ) from None

    def matches(self, url: yarl.URL) -> bool:
        """Whether both expressions match the URL. The port is left out if it is the scheme's own."""
        if self.authority.fullmatch(_authority(url)) is None:
            return False
        origin = _origin(url)
        if self.is_origin and self.url.fullmatch(origin) is not None:
            return True
        return self.url.fullmatch(origin + url.raw_path_qs) is not None


def _authority(url: yarl.URL) -> str:
    port = url.explicit_port
    shown = "" if port is None or port == _DEFAULT_PORTS.get(url.scheme) else f":{port}"
    host = url.raw_host or ""
    return (f"[{host}]" if ":" in host else host) + shown


def _origin(url: yarl.URL) -> str:
    return f"{url.scheme}://{_authority(url)}"
