"""`agui-gateway cluster`: the gateways that share a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.server.cluster_table import lines, member
from gateway.store import Gateway

FIRST = Gateway("1f", "pod-a (pid 7)", "http://10.0.0.7:80", "1.2.3", 1_800_000_000.0, 1_800_000_007.5, 12, True)
SECOND = replace(FIRST, gateway_id="2e", name="pod-bc (pid 1)", address=None, runs=0, is_first=False)


def test_the_table_has_a_line_for_each_gateway() -> None:
    assert list(lines([FIRST, SECOND])) == [
        "name            address             version  joined                    last heartbeat            runs",
        "pod-a (pid 7)   http://10.0.0.7:80  1.2.3    2027-01-15T08:00:00.000Z  2027-01-15T08:00:07.500Z  12    first",
        "pod-bc (pid 1)  alone               1.2.3    2027-01-15T08:00:00.000Z  2027-01-15T08:00:07.500Z  0",
    ]
    assert list(lines([])) == ["no gateway uses the store"]


def test_programs_get_the_same_as_json() -> None:
    assert member(FIRST) == {
        "id": "1f",
        "name": "pod-a (pid 7)",
        "address": "http://10.0.0.7:80",
        "version": "1.2.3",
        "joinedAt": "2027-01-15T08:00:00.000Z",
        "lastHeartbeatAt": "2027-01-15T08:00:07.500Z",
        "runs": 12,
        "isFirst": True,
    }
    assert json.loads(json.dumps(member(SECOND)))["address"] is None


def test_a_store_in_a_file_takes_one_gateway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("agents: []\n")
    assert main(["cluster", "--config", str(file)]) == 1
    assert "a sqlite: store takes one gateway" in capsys.readouterr().err
