"""Media that a model made as markdown, for clients whose answers are text.

Below: messages. Above: chat_messages, and the renderers.
"""

from __future__ import annotations

from typing import Final

from gateway.messages import MEDIA_KINDS, Base64Source, FileSource, ImageBlock, MediaBlock, MediaSource, UrlSource

_UNSAFE_IN_NAME: Final = str.maketrans(dict.fromkeys("[]\\\r\n", " "))
_UNSAFE_IN_ADDRESS: Final = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E"})


def markdown_of(block: MediaBlock) -> str:
    """A picture as an image, anything else as a link; empty for a medium without data, which was taken back.

    A file that only its provider has is its name alone.
    """
    name = (block.name or MEDIA_KINDS[type(block)]).translate(_UNSAFE_IN_NAME)
    if isinstance(block.source, FileSource):
        return f"[{name}]"
    address = address_of(block.source)
    if not address:
        return ""
    return f"{'!' if isinstance(block, ImageBlock) else ''}[{name}]({address.translate(_UNSAFE_IN_ADDRESS)})"


def address_of(source: MediaSource) -> str:
    """Where a client finds a medium: its URL, or a data URL; empty where there is neither."""
    match source:
        case Base64Source(data, media_type):
            return f"data:{media_type};base64,{data}" if data else ""
        case UrlSource(url):
            return url
        case FileSource():
            return ""
