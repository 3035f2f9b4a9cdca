"""What a run's end says, and to whom."""

from __future__ import annotations

import pytest

from gateway.errors import GatewayError, ModelError, ModelErrorKind
from gateway.events import RunFailed
from gateway.messages import Message, TextBlock
from gateway.runs.endings import failed, title_of
from tests.counted_work import most_bytes_taken
from tests.stored_samples import run


def test_why_a_provider_refused_is_in_the_log_and_kept_with_the_run(caplog: pytest.LogCaptureFixture) -> None:
    error = ModelError(ModelErrorKind.INVALID, "the provider refused it", provider_message="temperature: unknown")
    error.asked = "m (p)"
    ended = failed(run(), error, lambda text: text.replace("unknown", "***"))
    assert ended == RunFailed("model_invalid", "m (p): the provider refused it: temperature: ***")
    (entry,) = caplog.records
    assert (entry.__dict__["code"], entry.__dict__["provider_message"]) == ("model_invalid", "temperature: unknown")


def test_what_failed_unexpectedly_is_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert "secret" not in failed(run(), RuntimeError("secret"), str).message
    assert caplog.records[0].exc_info is not None
    assert failed(run(), GatewayError("no", code="odd"), str) == RunFailed("odd", "no")


def asked(text: str) -> tuple[Message, ...]:
    return (Message("m", "user", (TextBlock(text),)),)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (" What\nis  it? ", "What is it?"),
        (" \n", None),
        ("w " * 40, " ".join("w" * 40)),
        ("w  " * 100, " ".join("w" * 40) + "…"),
        ("w" * 80, "w" * 80),
        ("w" * 81, "w" * 79 + "…"),
    ],
)
def test_a_title_is_the_beginning_of_what_was_asked(text: str, title: str | None) -> None:
    assert title_of(asked(text)) == title


def test_not_all_words_of_a_long_text_are_looked_at_for_its_title() -> None:
    messages = asked("w " * 500_000)
    assert most_bytes_taken(lambda: title_of(messages)) < 2_500_000
