"""The dialect of AG-UI that a client understands, by the protocol version that it declares.

Pure. Sources: https://docs.ag-ui.com/spec/1.0/basic/versioning, and the event schemas of the npm packages
`@ag-ui/core` 0.0.47, 0.0.59 and 1.0.0, which refuse a whole run for one field that they do not know.
"""

from __future__ import annotations

import re
from enum import Enum

from gateway.errors import InvalidRequestError

PROTOCOL_VERSION = "1.0"
"""The gateway's version, which every RUN_STARTED has."""

_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\Z")


class PeerProfile(Enum):
    """Which dialect a client takes."""

    FULL = "full"
    """AG-UI 1.0 and newer."""

    LEGACY = "legacy"
    """0.0.x, which declares nothing: no outcome but an interrupt's, tool results as text, media as `binary` parts."""

    LEGACY_MEDIA = "legacy_media"
    """0.0.48 to 0.0.59: as LEGACY, but it has shown that it knows image, audio, video and document parts."""

    @property
    def is_full(self) -> bool:
        return self is PeerProfile.FULL


def profile_of(declared: str | None) -> PeerProfile:
    """The profile of a client that declares this `protocolVersion`.

    None is a client from before there were versions. A version not of the form MAJOR.MINOR counts as newer than 1.0,
    as the specification asks.

    Raises:
        ValueError: another major version; the specification lets a server refuse nothing else.
    """
    if declared is None or declared.startswith("0."):
        return PeerProfile.LEGACY
    match = _VERSION.match(declared)
    if match is not None and match[1].lstrip("0") != "1":
        raise ValueError(f"protocol version {declared[:32]!r} is not served; this is {PROTOCOL_VERSION}")
    return PeerProfile.FULL


def profile_asked(declared: str | None) -> PeerProfile:
    """As `profile_of`, for the query of a request; 1.0 where it says nothing.

    Raises:
        InvalidRequestError: 400, another major version.
    """
    try:
        return profile_of(PROTOCOL_VERSION if declared is None else declared)
    except ValueError as error:
        raise InvalidRequestError(str(error), code="unsupported_protocol_version", status=400) from None
