"""The recorded traffic of Bedrock Converse."""

from __future__ import annotations

from tests.recorded_traffic import Entry, Recordings

RECORDINGS = Recordings("bedrock-converse")
recordings = RECORDINGS.of_kind  # `eventstream` or `json`
recorded_bytes = RECORDINGS.answer
recorded_request = RECORDINGS.request


def recorded_model_id(entry: Entry) -> str:
    """Of the path `/model/<id>/converse-stream`."""
    return str(entry["uri"]).split("/model/")[1].split("/")[0].replace("%3A", ":")
