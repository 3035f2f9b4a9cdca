"""What a run's record keeps of its response."""

from __future__ import annotations

from dataclasses import replace

import orjson

from gateway.agent_api.output import ORIGIN, ResponseForm, form_of
from gateway.protocol.earlier_calls import EarlierCall
from gateway.store import RunRecord, RunStatus

FORM = ResponseForm(
    "r",
    "t",
    7,
    "hidden",
    ("n is 1",),
    ({"server_label": "files", "tools": [{"name": "look", "input_schema": {}}]},),
    (EarlierCall("c", "refund", "{}", "shop"), EarlierCall("d", "refund", "{}")),
)
RECORD = RunRecord("o", "r", "t", "a", RunStatus.RUNNING, created_at=9.5, origin=ORIGIN)


def test_a_form_comes_back_from_the_runs_record() -> None:
    for form in (FORM, ResponseForm("r", "t", 7)):
        kept = orjson.loads(orjson.dumps(form.remembered))
        assert form_of(replace(RECORD, request={**kept, "more": 1})) == form


def test_a_run_of_another_protocol_has_a_form_too() -> None:
    record = replace(RECORD, origin="responses", request={"created_at": 1, "backend_tools": "mcp_call"})
    assert form_of(record) == ResponseForm("r", "t", 9)


def test_frames_say_the_warnings_that_there_are() -> None:
    assert FORM.members["metadata"] == {"warnings": ["n is 1"]}
    assert "metadata" not in ResponseForm("r", "t", 7).members
