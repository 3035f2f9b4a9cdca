"""What docs/many-machines.md says of several gateways, and the files of `deploy/` that it names."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import main
from gateway.configuration.sections import ClusterSection, ServerSection
from gateway.opensearch.address import parse_address
from gateway.opensearch.membership import BEATS_A_LEASE, LEASE_SECONDS
from gateway.settings import Flags, check_settings
from tests.documentation import PAGES, ROOT, code_words, first_column, section
from tests.local_proxies import DEPLOY
from tests.test_container import substituted

PAGE = "docs/many-machines.md"
SECRETS = {"AGUI_GATEWAY_KEY": "a-key-that-is-long-enough", "MASTER_KEY": base64.b64encode(bytes(32)).decode()}


def composed() -> Any:
    return yaml.safe_load((DEPLOY / "compose.several.yaml").read_text("utf-8"))


def manifest(kind: str) -> Any:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.several.yaml").read_text("utf-8"))
    [found] = [each for each in documents if each["kind"] == kind]
    return found


def test_the_lease_is_as_long_as_the_page_says() -> None:
    assert ClusterSection().lease_seconds == LEASE_SECONDS
    assert f"lease_seconds: {LEASE_SECONDS:.0f} " in PAGES[PAGE]
    assert BEATS_A_LEASE == 5
    assert "every fifth of the lease" in PAGES[PAGE]


def test_every_code_that_a_fault_has_is_explained() -> None:
    codes = re.findall(r"(?:409|503) `(\w+)`", PAGES[PAGE])
    assert {"thread_busy", "gateway_unreachable"} <= {*codes}
    for code in codes:
        assert f"## {code}\n" in PAGES["docs/reference/errors.md"]


def test_each_gateway_of_the_compose_file_has_an_address_of_its_own() -> None:
    services = composed()["services"]
    gateways = {name: each for name, each in services.items() if name.startswith("gateway-")}
    assert len(gateways) == 3
    assert services["nginx"]["depends_on"] == [*gateways]
    for name, gateway in gateways.items():
        environ = {key: substituted(value, **SECRETS) for key, value in gateway["environment"].items()}
        settings = check_settings(Flags(config=DEPLOY / "gateway.yaml"), environ=environ)
        assert settings.cluster.advertise == f"http://{name}:8000"
        assert parse_address(settings.store, ROOT).host == "opensearch"
        assert [key.reveal() for key in settings.server.master_keys] == [SECRETS["MASTER_KEY"]]
        assert float(gateway["stop_grace_period"].removesuffix("s")) > ServerSection().drain_seconds
        assert "ports" not in gateway, "only nginx is reached from outside"
    site = (DEPLOY / "nginx.several.conf").read_text("utf-8")
    assert re.findall(r"server (\S+):8000", site) == [*gateways]
    named = services["opensearch"]["extends"]
    assert named["service"] in yaml.safe_load((DEPLOY / named["file"]).read_text("utf-8"))["services"]


def test_each_pod_tells_its_own_address() -> None:
    spec = manifest("Deployment")["spec"]
    [container] = spec["template"]["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    port = container["ports"][0]["containerPort"]

    assert spec["replicas"] > 1
    assert spec["strategy"]["type"] == "RollingUpdate"
    assert variables["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert variables["AGUI_GATEWAY__CLUSTER__ADVERTISE"]["value"] == f"http://$(POD_IP):{port}"
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > ServerSection().drain_seconds


def test_the_pods_configuration_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGUI_GATEWAY_KEY", SECRETS["AGUI_GATEWAY_KEY"])
    monkeypatch.setenv("AGUI_GATEWAY__SERVER__MASTER_KEYS", SECRETS["MASTER_KEY"])
    monkeypatch.setenv(
        "AGUI_GATEWAY__STORE", "opensearch://gateway:password@opensearch:9200?prefix=agui-gateway&tls=true"
    )
    monkeypatch.setenv("AGUI_GATEWAY__CLUSTER__ADVERTISE", "http://10.1.2.3:8000")
    (tmp_path / "gateway.yaml").write_text(manifest("ConfigMap")["data"]["gateway.yaml"], "utf-8")
    assert main(["config", "check", str(tmp_path / "gateway.yaml")]) == 0


def test_an_address_of_a_gateway_needs_a_store_that_takes_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = {"cluster": {"advertise": "http://10.0.0.7:8000"}, "agents": []}
    (tmp_path / "gateway.yaml").write_text(json.dumps(file), "utf-8")
    assert main(["config", "check", str(tmp_path / "gateway.yaml")]) != 0
    assert "cluster.advertise" in capsys.readouterr().err


def test_every_fault_has_its_row() -> None:
    assert code_words(first_column(section(PAGE, "What each fault does"))) == []
    assert len(first_column(section(PAGE, "What each fault does")).splitlines()) == 8
