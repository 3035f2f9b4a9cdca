"""`data:` URLs, which hold their content themselves. Pure.

Above: the readers of media in requests, and the writers of requests to model providers. https://www.rfc-editor.org/rfc/rfc2397
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

_SCHEME: Final = "data:"


class DataUrl(NamedTuple):
    """`media_type` as it is written, without its parameters; empty where there is none. `payload` is the text after
    the comma, base64 if `is_base64`.
    """

    media_type: str
    payload: str
    is_base64: bool

    @property
    def base64(self) -> str:
        """The content in base64. Base64 of the URL is not checked and may be broken."""
        if self.is_base64:
            return self.payload
        return base64.b64encode(unquote_to_bytes(self.payload)).decode("ascii")


def read_data_url(url: str) -> DataUrl | None:
    """The parts of the URL; None: it is no `data:` URL."""
    if url[: len(_SCHEME)].lower() != _SCHEME:
        return None
    head, comma, payload = url[len(_SCHEME) :].partition(",")
    if not comma:
        return None
    media_type, *parameters = (each.strip() for each in head.split(";"))
    return DataUrl(media_type, payload, "base64" in map(str.lower, parameters))
