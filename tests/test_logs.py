"""Logs: one line each, structured, without secrets and without tricks."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.agent import Secret
from gateway.logs import MASK, Redaction, configure_logging

KEY = "correct horse battery staple"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def lines_of(
    log: Callable[[logging.Logger], object], *, level: Any = "info", secrets: tuple[str, ...] = ()
) -> list[Any]:
    stream = io.StringIO()
    configure_logging(level, "auto", map(Secret, secrets), stream)
    log(logging.getLogger("gateway.test"))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def text_of(log: Callable[[logging.Logger], object]) -> str:
    stream = Terminal()
    configure_logging("info", "auto", (), stream)
    log(logging.getLogger("gateway.test"))
    return stream.getvalue()


def test_a_machine_reads_a_json_object_per_line() -> None:
    [line] = lines_of(lambda log: log.info("run %s", "ended", extra={"run_id": "r1", "events": 3}))
    assert line.pop("time").endswith("Z")
    assert line == {"message": "run ended", "level": "info", "logger": "gateway.test", "run_id": "r1", "events": 3}


def test_a_person_on_a_terminal_reads_text() -> None:
    text = text_of(lambda log: log.info("run ended", extra={"run_id": "r1"}))
    assert "run ended" in text
    assert "run_id" in text
    assert not text.startswith("{")


def test_levels_are_kept() -> None:
    def log(logger: logging.Logger) -> None:
        logger.debug("no")
        logger.info("no")
        logger.warning("yes")

    assert [line["message"] for line in lines_of(log, level="warning")] == ["yes"]


def test_other_libraries_take_the_same_way_and_say_less() -> None:
    def log(_: logging.Logger) -> None:
        logging.getLogger("uvicorn.error").info("started")
        logging.getLogger("httpx").info("HTTP Request: GET https://provider.example/?key=abc")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        lines = lines_of(log)
    assert [line["logger"] for line in lines] == ["uvicorn.error", "py.warnings"]


def test_a_second_configuration_replaces_the_first() -> None:
    first = io.StringIO()
    configure_logging("info", "json", (), first)
    assert len(lines_of(lambda log: log.info("once"))) == 1
    assert first.getvalue() == ""


def test_nothing_can_forge_a_line_or_move_the_cursor() -> None:
    evil = "a\r\nERROR forged\x1b[2J\x9b1m\u202egnp.exe\u2028next\x7f\x00"
    extras: list[dict[str, object]] = [{}, {"thread_id": evil}, {evil: 1}, {"list": [{"deep": evil}]}]
    for extra in extras:

        def log(logger: logging.Logger, extra: dict[str, object] = extra) -> None:
            logger.info(evil, extra=extra)

        stream = io.StringIO()
        configure_logging("info", "json", (), stream)
        log(logging.getLogger("gateway.test"))
        terminal = text_of(log)
        for output in (stream.getvalue(), terminal):
            assert output.count("\n") == 1
            body = output[:-1]
            assert not [char for char in "\r\x9b\u202e\u2028\x7f\x00" if char in body]
            assert "\x1b[2J" not in body


def test_a_traceback_is_there_and_keeps_no_secret() -> None:
    def log(logger: logging.Logger) -> None:
        try:
            raise ValueError(f"bad key {KEY} at https://user:pass-word@host/")
        except ValueError:
            logger.exception("it failed")

    [line] = lines_of(log, secrets=(KEY,))
    assert "Traceback" in line["exception"]
    assert KEY not in json.dumps(line)
    assert "pass-word" not in json.dumps(line)
    assert "Traceback (most recent call last):\n" in text_of(log)


def test_registered_secrets_are_masked_wherever_they_stand() -> None:
    def log(logger: logging.Logger) -> None:
        logger.info("with %s inside", KEY)
        logger.info("m", extra={"field": f"<{KEY}>", "list": [KEY, {"x": KEY}], KEY: 1, "bytes": KEY.encode()})
        logger.info("m", extra={"object": ValueError(KEY), "secret_object": Secret("short")})

    lines = lines_of(log, secrets=(KEY, KEY[:7], ""))
    assert lines[0]["message"] == f"with {MASK} inside"
    assert KEY not in json.dumps(lines)
    assert lines[2]["secret_object"] == MASK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Digest xyz"),
        ("Authorization", "whatever"),
        ("x-api-key", "k"),
        ("Cookie", "a=b"),
        ("api_key", "k"),
        ("password", 12345),
        ("credential", {"anything": "k"}),
    ],
)
def test_values_of_secret_names_are_masked_whatever_they_look_like(name: str, value: object) -> None:
    [line] = lines_of(lambda log: log.info("m", extra={name: value, "headers": {name: value}}))
    assert line[name] == MASK
    assert line["headers"] == {name: MASK}


def test_headers_as_pairs_are_masked() -> None:
    pairs = [(b"Authorization", b"Digest xyz"), ("x-api-key", "k"), ("accept", "text/html")]
    [line] = lines_of(lambda log: log.info("m", extra={"headers": pairs}))
    assert line["headers"] == [["Authorization", MASK], ["x-api-key", MASK], ["accept", "text/html"]]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdef123", "Authorization: ***"),
        ("sent bearer abcdef123 along", "sent bearer *** along"),
        ("'x-api-key': 'abc def'", "'x-api-key': '***'"),
        ("key sk-proj-abc_DEF-12345 is wrong", "key *** is wrong"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc-def", "***"),
        ("postgres://user:pass@host/db", "postgres://user:***@host/db"),
        ("https://h/p?api_key=abc&b=1", "https://h/p?api_key=***&b=1"),
        ("https://h/p?a=1&X-Amz-Signature=abc", "https://h/p?a=1&X-Amz-Signature=***"),
        ("ghp_abcdefghijklmnopqrstuvwxyz012345", "***"),
    ],
)
def test_what_looks_secret_is_masked(text: str, masked: str) -> None:
    assert Redaction().text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "run ended after 3 tool calls",
        "http://127.0.0.1:8000/agents/assistant/run",
        "risk-assessment of the basic plan",
        "the token count is 12; total_tokens=12",
        "bearer of news",
        "msg_0f6c1234567890abcdef1234567890ab",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert Redaction([Secret(KEY)]).text(text) == text


def test_a_long_hostile_text_is_masked_in_good_time() -> None:
    # pytest's time limit is the judge: a pattern that backtracks needs minutes for these
    for piece in ("://a", "eyJ" + "a" * 10, "bearer ", "cookie:", "?key", "sk-"):
        Redaction().text(piece * 20_000)


def test_secrets_of_callers_are_masked_from_when_they_are_known() -> None:
    redaction = Redaction([Secret(KEY)])
    assert redaction.text("uses hunter2-and-more") == "uses hunter2-and-more"
    redaction.learn_from_callers(map(Secret, ["hunter2-and", "hunter2-and-more", "short", "hunter2-other"]))
    assert redaction.text("uses hunter2-and-more, hunter2-and, short hunter2-else") == (
        "uses ***, ***, short hunter2-else"
    )
    assert redaction.text("hunter2-otherhunter2-other") == "******"
    assert redaction.text(f"{KEY} and hunter2") == "*** and hunter2"


def test_many_secrets_of_callers_cost_a_line_nothing_and_the_oldest_are_forgotten() -> None:
    # pytest's time limit is the judge: one after the other, these lines would need minutes
    redaction = Redaction()
    redaction.learn_from_callers(Secret(f"keyless_{number:0100}") for number in range(200_000))
    assert redaction.text(f"a keyless_{199_999:0100} b") == "a *** b"
    assert redaction.text(f"a keyless_{0:0100} b") == f"a keyless_{0:0100} b"
    for _ in range(1_000):
        redaction.text("an ordinary line " * 20)
