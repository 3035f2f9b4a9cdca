"""`docs/reference/errors.md`: every code of an error, with status, cause and cure.

Causes and cures are in `errors.toml` beside this file; a test holds its codes against those in the source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gateway.protocol.failure_status import failure_status

_INTRODUCTION = """# Codes of errors

Every code of an error: its status, what has happened, and what to do. [The HTTP interface](../http.md#errors) shows the
form of errors. Find a code by searching this page for it; each has an anchor of its name.

A code with a status is the `code` of an answer. A code of a run comes after the first byte: as `RUN_ERROR` over AG-UI,
in `GET /runs/{id}`, and in the metric `agui_gateway_runs_total`. Where a protocol answers with one body, the run's
error has the status that stands here.

Some protocols use other names or statuses for the same: below `/v1` see [OpenAI's](../openai.md#errors), below `/a2a`
[A2A's](../a2a.md#errors), which has the code in capitals as `reason`. Both, and ml-commons, answer 400 in place of 422.
"""


def errors() -> Mapping[str, Mapping[str, Any]]:
    """The entries by their codes."""
    return tomllib.loads((Path(__file__).parent / "errors.toml").read_text("utf-8"))


def errors_page() -> str:
    """The page's text."""
    return "\n".join([_INTRODUCTION, *(_entry(code, entry) for code, entry in sorted(errors().items()))])


def _entry(code: str, entry: Mapping[str, Any]) -> str:
    return f"## {code}\n\n*{_where(code, entry)}.* {entry['cause']}\n\n{entry['cure']}\n"


def _where(code: str, entry: Mapping[str, Any]) -> str:
    statuses = " or ".join(f"{status} {HTTPStatus(status).phrase}" for status in entry.get("status", ()))
    match entry.get("run"):
        case "failed":
            in_one_body = HTTPStatus(failure_status(code))
            of_run = f"Of a run that failed ({in_one_body} {in_one_body.phrase} where the answer is one body)"
            return f"{statuses}; of a run that failed" if statuses else of_run
        case "ag_ui":
            return "Only of a `RUN_ERROR` of AG-UI"
        case "cancelled":
            return f"{statuses}; of a run that was cancelled" if statuses else "Of a run that was cancelled"
        case _:
            return statuses or "No answer has it"
