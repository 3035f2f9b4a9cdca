"""The media that Bedrock Converse takes: formats and limits.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html and the `ImageBlock`,
`DocumentBlock`, `VideoBlock` and `AudioBlock` pages beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateway.messages import MediaKind
from gateway.wire.media_bytes import IMAGE_FORMATS, bare_type, format_in

MAX_BYTES: Mapping[MediaKind, int] = MappingProxyType(
    # Audio has no documented limit: the one for films keeps a body from growing without end.
    {"image": 3_932_160, "document": 4_718_592, "video": 26_214_400, "audio": 26_214_400}
)
MAX_PER_MESSAGE: Mapping[str, int] = MappingProxyType({"image": 20, "document": 5})

_OPEN_XML = "application/vnd.openxmlformats-officedocument"
FORMATS: Mapping[MediaKind, Mapping[str, str]] = MappingProxyType(
    {
        "image": IMAGE_FORMATS,
        "document": {
            "application/pdf": "pdf",
            "text/csv": "csv",
            "application/csv": "csv",
            "application/msword": "doc",
            f"{_OPEN_XML}.wordprocessingml.document": "docx",
            "application/vnd.ms-excel": "xls",
            f"{_OPEN_XML}.spreadsheetml.sheet": "xlsx",
            "text/html": "html",
            "application/xhtml+xml": "html",
            "text/plain": "txt",
            "text/markdown": "md",
            "text/x-markdown": "md",
            "application/json": "txt",
            "application/xml": "txt",
            "application/yaml": "txt",
            "application/x-yaml": "txt",
        },
        "video": {
            "video/x-matroska": "mkv",
            "video/matroska": "mkv",
            "video/quicktime": "mov",
            "video/mp4": "mp4",
            "video/webm": "webm",
            "video/x-flv": "flv",
            "video/mpeg": "mpeg",
            "video/mpg": "mpg",
            "video/x-ms-wmv": "wmv",
            "video/3gpp": "three_gp",
        },
        "audio": {
            "audio/mpeg": "mp3",
            "audio/mp3": "mp3",
            "audio/opus": "opus",
            "audio/wav": "wav",
            "audio/x-wav": "wav",
            "audio/wave": "wav",
            "audio/vnd.wave": "wav",
            "audio/aac": "aac",
            "audio/x-aac": "x-aac",
            "audio/flac": "flac",
            "audio/x-flac": "flac",
            "audio/mp4": "mp4",
            "audio/m4a": "m4a",
            "audio/x-m4a": "m4a",
            "audio/ogg": "ogg",
            "audio/x-matroska": "mka",
            "audio/mpga": "mpga",
            "audio/pcm": "pcm",
            "audio/l16": "pcm",
            "audio/webm": "webm",
        },
    }
)
_EXTENSIONS = MappingProxyType(
    {"jpg": "jpeg", "htm": "html", "markdown": "md", "text": "txt", "log": "txt", "3gp": "three_gp"}
)


def media_format(kind: MediaKind, media_type: str | None, head: bytes = b"", name: str | None = None) -> str | None:
    """Converse's name for the format; None where Converse does not accept it.

    The first bytes decide, then `media_type`, then the ending of `name` (a file name or a URL's path): models refuse a
    picture whose declared type is wrong.
    """
    known = FORMATS[kind]
    if (told := format_in(kind, head)) is not None:
        return told
    said = bare_type(media_type)
    if said in known:
        return known[said]
    ending = (name or "").rpartition(".")[2].lower()
    ending = _EXTENSIONS.get(ending, ending)
    if ending in known.values():
        return ending
    return "txt" if kind == "document" and said.startswith("text/") else None
