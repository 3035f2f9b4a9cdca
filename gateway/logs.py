"""Logs: structured, levelled, redacted. Modules log through the standard library; this module renders the records.

Below: agent (secrets). A line is a JSON object for machines, text on a terminal. The fields of `extra={...}` (`run_id`,
`request_id`, ...) become the line's fields. uvicorn's and other libraries' loggers are rendered the same way.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from gateway.agent import Secret

MASK = "***"

# Fields and headers whose values are always secret.
_SECRET_NAMES = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "api_key",
        "apikey",
        "cookie",
        "set-cookie",
        "password",
        "secret",
        "secret_key",
        "access_key",
        "session_token",
        "token",
        "x-amz-security-token",
        "x-goog-api-key",
        "credential",
        "credentials",
    }
)

# Secrets that nobody registered, by their form. Text before a group stays, so that the kind of the secret is visible.
_LOOKS_SECRET = re.compile(
    r"""(?xi)
    \b(?:bearer|basic)\s+(?P<scheme>[A-Za-z0-9._~+/=-]{6,})
    | \b(?:(?:proxy-)?authorization|x-api-key|(?:set-)?cookie)["']?\s*[:=]\s*["']?(?P<header>[^\r\n"']{2,})
    | [?&](?:api[_-]?key|key|token|access_token|sig|signature|x-amz-signature|x-amz-security-token)=(?P<query>[^&\s"']+)
    | ://[^/\s:@"']*:(?P<password>[^/\s@"']+)@
    | (?P<known>
        \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}
      | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
      | \bAIza[A-Za-z0-9_-]{30,}
      | \bgh[pousr]_[A-Za-z0-9]{20,}
      | \bxox[abprs]-[A-Za-z0-9-]{10,}
      | \bvt1~[A-Za-z0-9._~-]{8,}
      | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?
      )
    """
)

# Control characters move a terminal's cursor and forge lines; bidirectional overrides reorder what one reads.
_CONTROLS = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (
        *range(32),
        *range(127, 160),
        0x061C,
        *range(0x200E, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
}
_CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_CONTROLS_IN_JSON = {code: text for code, text in _CONTROLS.items() if code >= 127}

# At INFO they repeat what the gateway logs, or log whole requests.
_CHATTY = (
    *("httpx", "httpcore", "aiohttp", "botocore", "boto3", "urllib3", "asyncio", "multipart"),
    *("mcp", "client", "httpx2", "httpcore2"),  # the mcp package, whose sessions log as "client"
)
_SERVER_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class Redaction:
    """Removes secrets from a log line: the registered ones everywhere, others by field name and by form."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._known: re.Pattern[str] | None = None
        self._callers = _CallersSecrets()
        self.learn(secrets)

    def learn(self, secrets: Iterable[Secret]) -> None:
        """Remove these secrets, too, from now on. Earlier ones stay registered: running parts may still use them."""
        self._secrets |= {secret.reveal() for secret in secrets} - {""}
        # the longest first: one secret may begin with another
        alternatives = "|".join(re.escape(secret) for secret in sorted(self._secrets, key=len, reverse=True))
        self._known = re.compile(alternatives) if alternatives else None

    def learn_from_callers(self, secrets: Iterable[Secret]) -> None:
        """Remove these secrets, too: they came with requests, and there may be many. The oldest are forgotten when
        there are too many.
        """
        self._callers.add(secret.reveal() for secret in secrets)

    def __call__(self, logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
        """Redact a line; the signature is a structlog processor's."""
        # the gateway's own field names hold no secrets; a library's may
        return {
            key if key.isidentifier() else self.text(key): self._field(key, value) for key, value in event_dict.items()
        }

    def text(self, text: str) -> str:
        """`text` without secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = self._callers.removed_from(text)
        return _LOOKS_SECRET.sub(_masked, text)

    def _field(self, name: object, value: object) -> object:
        if value is not None and _name(name) in _SECRET_NAMES:
            return MASK
        return self._value(value)

    def _value(self, value: object) -> object:
        match value:
            case None | bool() | int() | float():
                return value
            case Secret():
                return MASK
            case str():
                return self.text(value)
            case bytes():
                return self.text(value.decode("utf-8", "replace"))
            case Mapping():
                return {self._value(key): self._field(key, inner) for key, inner in value.items()}
            case (str() | bytes()) as name, (str() | bytes()) as inner if _name(name) in _SECRET_NAMES:
                return [self._value(name), MASK if inner else inner]  # a header as ASGI and httpx represent it
            case list() | tuple() | set() | frozenset():
                return [self._value(inner) for inner in value]
            case _:
                return self.text(str(value))


class _CallersSecrets:
    """The secrets of callers, looked up by their first BEGIN characters, so that a line's cost does not grow with their
    number. The newest are kept, MOST_CHARACTERS together.

    A secret shorter than BEGIN could be any word, and is not removed.
    """

    BEGIN = 8
    MOST_CHARACTERS = 16_000_000
    LONGEST = 4096  # of a longer secret, only so many characters are removed

    def __init__(self) -> None:
        self._known: dict[str, dict[int, set[str]]] = {}  # by their beginnings and lengths
        self._in_order: deque[str] = deque()
        self._characters = 0

    def add(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            text = secret[: self.LONGEST]
            if len(text) < self.BEGIN:
                continue
            alike = self._known.setdefault(text[: self.BEGIN], {}).setdefault(len(text), set())
            if text not in alike:
                alike.add(text)
                self._in_order.append(text)
                self._characters += len(text)
        while self._characters > self.MOST_CHARACTERS:
            self._forget(self._in_order.popleft())

    def removed_from(self, text: str) -> str:
        """The text without the secrets."""
        if not self._known:
            return text
        pieces: list[str] = []
        done = at = 0
        while at <= len(text) - self.BEGIN:
            found = self._length_at(text, at)
            if found:
                pieces += (text[done:at], MASK)
                done = at + found
            at += found or 1
        return "".join([*pieces, text[done:]]) if pieces else text

    def _length_at(self, text: str, at: int) -> int:
        """The length of the secret that begins at this place; 0 if there is none. Of several, the longest counts."""
        alike = self._known.get(text[at : at + self.BEGIN])
        if alike is None:
            return 0
        return next((length for length in sorted(alike, reverse=True) if text[at : at + length] in alike[length]), 0)

    def _forget(self, secret: str) -> None:
        alike = self._known[secret[: self.BEGIN]]
        alike[len(secret)].discard(secret)
        if not alike[len(secret)]:
            del alike[len(secret)]
        if not alike:
            del self._known[secret[: self.BEGIN]]
        self._characters -= len(secret)


def _name(name: object) -> str:
    return name.decode("latin-1").lower() if isinstance(name, bytes) else str(name).lower()


def _masked(found: re.Match[str]) -> str:
    group = found.lastgroup
    assert group is not None, "every alternative has a group"
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return f"{found[0][:start]}{MASK}{found[0][end:]}"


def configure_logging(
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["auto", "json", "text"] = "auto",
    secrets: Iterable[Secret] = (),
    stream: TextIO | None = None,
) -> Redaction:
    """Send all log records to `stream` (standard error), one line each. A second call replaces the first.

    Returns the lines' redaction, which may learn more secrets later.
    """
    stream = stream or sys.stderr
    as_text = form == "text" or (form == "auto" and stream.isatty())
    handler = _Handler(stream)
    redaction = Redaction(secrets)
    handler.setFormatter(_formatter(as_text, stream.isatty(), redaction))
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _SERVER_LOGGERS:
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    logging.captureWarnings(True)
    return redaction


def add_to_lines(fields: Callable[[], Mapping[str, str]]) -> None:
    """Add the fields that `fields()` gives to every line as it is written."""

    def add(record: logging.LogRecord) -> bool:
        for name, value in fields().items():
            setattr(record, name, value)
        return True

    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            handler.addFilter(add)


class _Handler(logging.StreamHandler[TextIO]):
    """Marks the gateway's own handler."""


def _formatter(as_text: bool, colors: bool, redaction: Redaction) -> logging.Formatter:
    first: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
    ]
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        _without_color,
        structlog.processors.format_exc_info,
        redaction,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    if as_text:
        # the traceback is text by now, so the renderer needs no exception
        last += [_escaper(_CONTROLS), structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time")]
    else:
        last += [
            structlog.processors.EventRenamer("message"),
            _in_order,
            _escaper(_CONTROLS_IN_JSON),
            structlog.processors.JSONRenderer(serializer=_dump),
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=last)


def _without_color(logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    event_dict.pop("color_message", None)  # uvicorn's copy of the message with colours
    return event_dict


def _in_order(logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    """The fields of every line first; the others keep their order."""
    return {**{key: event_dict[key] for key in ("time", "level", "logger", "message")}, **event_dict}


def _escaper(controls: Mapping[int, str]) -> Processor:
    def escape(value: Any) -> Any:
        match value:
            case str():
                return value if value.isascii() and value.isprintable() else value.translate(controls)
            case dict():
                return {escape(key): escape(inner) for key, inner in value.items()}
            case list():
                return [escape(inner) for inner in value]
            case _:
                return value

    def process(logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
        # a traceback keeps its lines on a terminal
        traceback = event_dict.pop("exception", None)
        escaped: EventDict = escape(dict(event_dict))
        if isinstance(traceback, str):
            keeps_lines = {code: text for code, text in controls.items() if code != ord("\n")}
            escaped["exception"] = traceback.translate(keeps_lines)
        return escaped

    return process


def _dump(value: Any, **_: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
