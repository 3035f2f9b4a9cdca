"""The pages for operators: Kubernetes' manifest and commands, a scraper, the log, doctor, an old version's message."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import main
from gateway.configuration.sections import ServerSection
from gateway.errors import ConfigurationError
from gateway.server import doctor
from gateway.sqlite.schema import MIGRATIONS, migrate
from tests.documentation import PAGES, ROOT, snippet
from tests.running_gateway import agent, gateway_process, local_gateway, run_body, scripted, write_configuration

KUBERNETES = "docs/kubernetes.md"
MANIFEST = ROOT / "deploy" / "kubernetes.yaml"
KEY = "key-of-the-cluster-0123456789"


def manifest(kind: str) -> Any:
    [found] = [each for each in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if each["kind"] == kind]
    return found


def pod() -> Any:
    return manifest("Deployment")["spec"]["template"]["spec"]


def test_one_pod_at_a_time_has_the_store() -> None:
    spec = manifest("Deployment")["spec"]

    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    assert pod()["terminationGracePeriodSeconds"] > ServerSection().drain_seconds


def test_the_pod_is_as_the_image() -> None:
    image = (ROOT / "Dockerfile").read_text("utf-8")
    [container] = pod()["containers"]
    security = pod()["securityContext"]

    assert f"USER {security['runAsUser']}:{security['runAsGroup']}\n" in image
    assert f"EXPOSE {container['ports'][0]['containerPort']}\n" in image
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert f"VOLUME {mounts['data']}\n" in image
    assert f"WORKDIR {mounts['configuration']}\n" in image
    assert {each["name"] for each in pod()["volumes"]} == set(mounts)


def test_the_parts_of_the_manifest_find_each_other() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    sources = {each["name"]: each for each in pod()["volumes"]}
    [container] = pod()["containers"]
    [port] = manifest("Service")["spec"]["ports"]

    assert manifest("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    claim, configuration = manifest("PersistentVolumeClaim")["metadata"], manifest("ConfigMap")["metadata"]
    assert sources["data"]["persistentVolumeClaim"]["claimName"] == claim["name"]
    assert sources["configuration"]["configMap"]["name"] == configuration["name"]
    probes = [container[f"{name}Probe"]["httpGet"]["port"] for name in ("startup", "liveness", "readiness")]
    assert {port["targetPort"], *probes} == {container["ports"][0]["name"]}


async def test_the_pods_configuration_answers_its_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGUI_GATEWAY_KEY", KEY)
    text = manifest("ConfigMap")["data"]["gateway.yaml"]
    (tmp_path / "gateway.yaml").write_text(text, "utf-8")
    assert main(["config", "check", str(tmp_path / "gateway.yaml")]) == 0
    file = yaml.safe_load(text)
    [container] = pod()["containers"]
    async with local_gateway(tmp_path, file["agents"], server=file["server"]) as gateway:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            answer = await gateway.client.http.get(path, headers={"Host": "10.1.2.3:8000"})
            assert answer.status_code == 200, (probe, answer.text)


def test_the_commands_make_and_ask_for_what_the_manifest_names() -> None:
    commands = snippet("docs/kubernetes.md", "", "kubectl apply")
    name = manifest("Deployment")["metadata"]["name"]
    [container] = pod()["containers"]
    [secret] = [each["secretRef"]["name"] for each in container["envFrom"]]
    [variable] = re.findall(r"\$\{env:(\w+)\}", manifest("ConfigMap")["data"]["gateway.yaml"])
    [port] = manifest("Service")["spec"]["ports"]

    assert f"create secret generic {secret} --from-literal={variable}=" in commands
    assert f"rollout status deployment/{name}\n" in commands
    assert f"port-forward service/{manifest('Service')['metadata']['name']} 8000:{port['port']}\n" in commands
    assert f"apply -f {MANIFEST.relative_to(ROOT)}\n" in commands


async def test_the_scraper_is_given_the_metrics(tmp_path: Path) -> None:
    [job] = yaml.safe_load(snippet("docs/http.md", "", "scrape_configs"))["scrape_configs"]
    path, kind = job.get("metrics_path", "/metrics"), job["authorization"].get("type", "Bearer")  # Prometheus' defaults
    keys = {"api_keys": [{"name": "scraper", "key": KEY}]}
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))], server=keys) as gateway:
        answer = await gateway.client.http.get(path, headers={"authorization": f"{kind} {KEY}"})
        refused = await gateway.client.http.get(path)

    assert (answer.status_code, refused.status_code) == (200, 401)
    assert "agui_gateway_runs_active" in answer.text
    assert f'job="{job["job_name"]}"' in (ROOT / "deploy" / "alerts.yaml").read_text("utf-8")


def test_the_manifest_says_what_the_page_explains() -> None:
    text = MANIFEST.read_text("utf-8")
    for words in re.findall(r"^\| `([^`]+)`", PAGES[KUBERNETES], re.MULTILINE):
        name, _, value = words.partition(": ")
        assert name in text, words
        assert value.strip() in text, words


async def test_a_line_of_the_log_is_as_on_the_page(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [agent("assistant", scripted([{"text": "hi"}]))])
    asked = snippet("docs/logs.md", "sh", "X-Request-Id")
    request_id = re.findall(r"X-Request-Id: ([^']+)'", asked)[0]
    async with gateway_process(configuration) as gateway:
        headers = {"X-Request-Id": request_id}
        answer = await gateway.client.http.post("/agents/assistant/run", json=run_body(), headers=headers)
        await gateway.signal(signal.SIGTERM)
    lines = [json.loads(line) for line in gateway.log.read_text("utf-8").splitlines() if line.startswith("{")]
    [line] = [each for each in lines if each.get("request_id") == request_id]
    shown = json.loads(snippet("docs/logs.md", "json"))

    assert answer.headers["x-request-id"] == request_id
    assert [*line] == [*shown]
    assert {name: line[name] for name in ("level", "logger", "message", "method", "path", "status")} == {
        name: shown[name] for name in ("level", "logger", "message", "method", "path", "status")
    }


def test_an_old_version_says_what_the_page_says() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    with pytest.raises(ConfigurationError) as refused:
        migrate(connection, MIGRATIONS[:-1])
    connection.close()
    shown = snippet("docs/upgrade.md", "", "newer")

    def plain(text: str) -> str:
        return re.sub(r"\d+", "N", text).strip()

    assert plain(shown) == plain(str(refused.value))


@pytest.mark.parametrize("page", ["docs/sizing.md", "docs/kubernetes.md"])
def test_every_metric_that_is_named_is_there(page: str) -> None:
    for name in re.findall(r"`(agui_gateway_\w+)`", PAGES[page]):
        assert f"`{name}`" in PAGES["docs/reference/metrics.md"], name


def test_doctor_says_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "page_is_built", lambda: True)
    agents = [{"id": "a", "model": {"model_provider": "demo"}}]
    Path("gateway.yaml").write_text(json.dumps({"agents": agents, "store": "sqlite:///data/gateway.db"}), "utf-8")
    shown = snippet("docs/deployment.md", "", "problem  folder")

    assert main(["doctor", "--config", "gateway.yaml"]) == 1
    assert capsys.readouterr().out.replace(str(tmp_path / "data"), "/var/lib/agui-gateway") == shown
