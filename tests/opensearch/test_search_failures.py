"""What a cluster's refusals of a search say to the model that wrote it."""

from __future__ import annotations

import pytest

from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.cluster import Answer
from gateway.opensearch.search_failures import is_unhandled, search_failure


def said(error: JsonValue, status: int = 400) -> str:
    return search_failure(Answer(status, {"error": error})).message


def caused(reason: str, **more: JsonValue) -> JsonObject:
    return {"type": "x_content_parse_exception", "reason": reason, **more}


def test_the_first_cause_is_told_and_its_own_cause() -> None:
    root = caused("failed to create query", caused_by=caused("[a.b.c] is no number"))
    error: JsonObject = {"root_cause": [root], **caused("all shards failed")}

    assert said(error) == "the cluster refuses the search: failed to create query; [a.b.c] is no number"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ParsingException[unknown field [a]]; nested", "unknown field [a]]; nested"),
        ("cannot cast java.lang.String to org.opensearch.index.query.A$B", "cannot cast to"),
        ("no field [MyError] in [com.example.path]", "no field [MyError] in [com.example.path]"),
        ("a\n  b", "a b"),
        ("x" * 600, "x" * 500 + "..."),
    ],
)
def test_names_of_classes_are_left_out_and_fields_stay(reason: str, shown: str) -> None:
    assert said(caused(reason)) == f"the cluster refuses the search: {shown}"


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (401, None, "the cluster does not know the gateway's user"),
        (403, caused("no permissions for [indices:data/read] and User [name=svc, roles=[x]]"), "has no right to it"),
        (404, {"type": "index_not_found_exception", "reason": "no such index [a]"}, "is not there any more"),
        (500, caused("failed to find action [@2203a204] to execute"), "its plugin 'opensearch-ml' is not installed"),
        (500, caused("Time exceeded"), "the search took too long"),
        (400, caused("The parent task was cancelled, shouldn't start any child tasks"), "the search took too long"),
        (500, None, "the cluster failed to search"),
        (400, "a text", "the cluster refuses the search: a text"),
    ],
)
def test_what_the_model_cannot_mend_is_said_shortly(status: int, error: JsonValue, told: str) -> None:
    text = said(error, status)

    assert told in text
    assert "svc" not in text


def test_a_page_that_is_not_there_is_recognised() -> None:
    missing = "no handler found for uri [/_plugins/_ppl] and method [POST]"

    assert is_unhandled(Answer(400, {"error": missing}))
    assert not is_unhandled(Answer(400, {"error": caused(missing)}))
    assert not is_unhandled(Answer(200, {}))
