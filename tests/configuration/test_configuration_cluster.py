"""The section `cluster`: how gateways that share a store reach each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.configuration.file import InvalidConfigurationError
from gateway.settings import ClusterSettings, Flags, Settings, check_settings, load_settings, needing_restart

SHARED = "store: opensearch://127.0.0.1:9200?prefix=p\nagents: []\n"


def loaded(directory: Path, text: str, **environ: str) -> Settings:
    file = directory / "f.yaml"
    file.write_text(text)
    return load_settings(Flags(config=file), environ=environ)


def test_a_gateway_takes_its_store_alone_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert loaded(tmp_path, SHARED).cluster == ClusterSettings(None, 10.0)
    assert loaded(tmp_path, SHARED + "cluster:\n").cluster == ClusterSettings(None, 10.0)


def test_each_gateway_may_get_its_address_from_its_environment(tmp_path: Path) -> None:
    own = loaded(
        tmp_path,
        SHARED + "cluster: {advertise: 'http://127.0.0.1:1', lease_seconds: 20}\n",
        AGUI_GATEWAY__CLUSTER__ADVERTISE="http://10.0.0.7:8000",
        AGUI_GATEWAY__CLUSTER__LEASE_SECONDS="30",
    )
    assert own.cluster == ClusterSettings("http://10.0.0.7:8000", 30.0)
    named = loaded(tmp_path, SHARED + "cluster: {advertise: 'http://${env:POD_IP}:8000'}\n", POD_IP="10.0.0.8")
    assert named.cluster.advertise == "http://10.0.0.8:8000"


@pytest.mark.parametrize(
    "url", ["10.0.0.7:8000", "ftp://a/", "http://a/?x=1", "http://a/#x", "http://u:p@a/", "http://"]
)
def test_an_address_is_a_url_that_other_gateways_can_ask(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        loaded(tmp_path, SHARED + f"cluster: {{advertise: '{url}'}}")
    assert "f.yaml:3:11: cluster.advertise: must be a URL without user and query" in caught.value.message


@pytest.mark.parametrize("seconds", ["1.9", "121", "true", "null"])
def test_a_lease_has_bounds(tmp_path: Path, seconds: str) -> None:
    text = SHARED + f"cluster: {{lease_seconds: {seconds}}}"
    if seconds == "null":
        assert loaded(tmp_path, text).cluster.lease_seconds == 10
        return
    with pytest.raises(InvalidConfigurationError, match=r"cluster\.lease_seconds"):
        loaded(tmp_path, text)


def test_a_store_in_a_file_takes_one_gateway(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match=r"cluster\.advertise: a sqlite: store takes one gateway"):
        loaded(tmp_path, "agents: []\ncluster: {advertise: 'http://10.0.0.7:8000'}")


def test_a_change_needs_a_restart(tmp_path: Path) -> None:
    before = loaded(tmp_path, SHARED + "cluster: {advertise: 'http://10.0.0.7:8000'}")
    assert needing_restart(before, replace(before, cluster=ClusterSettings("http://10.0.0.8:8000"))) == ["cluster"]


def test_a_file_with_it_is_checked_without_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(SHARED + "cluster: {advertise: 'http://10.0.0.7:8000'}")
    assert check_settings(Flags(config=file), environ={}).cluster.advertise == "http://10.0.0.7:8000"
