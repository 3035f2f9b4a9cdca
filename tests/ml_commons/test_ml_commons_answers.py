"""OpenSearch's ids, and its answers to searches."""

from __future__ import annotations

import re

from gateway.messages import JsonObject
from gateway.ml_commons.answers import new_document_id, search_answer


def test_ids_are_as_opensearch_makes_them() -> None:
    made = {new_document_id() for _ in range(500)}
    assert len(made) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{19}", each) for each in made)


def test_hits_show_nothing_of_owners() -> None:
    hit: JsonObject = {
        "_index": "agent",
        "_id": "a",
        "_version": 7,
        "_score": 1.0,
        "_owner": "alice",
        "_public": False,
        "_source": {"x": 1},
    }
    found: JsonObject = {"took": 1, "hits": {"total": {"value": 1, "relation": "eq"}, "hits": [hit]}}
    answer = search_answer(found, ".plugins-ml-agent", lambda body: {"name": body["x"]})
    assert answer["hits"] == {
        "total": {"value": 1, "relation": "eq"},
        "hits": [
            {
                "_index": ".plugins-ml-agent",
                "_id": "a",
                "_version": 7,
                "_score": 1.0,
                "_source": {"name": 1},
                "_seq_no": 7,
                "_primary_term": 1,
            }
        ],
    }
