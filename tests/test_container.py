"""The image: its Dockerfile is linted, each of its steps is done in a plain directory, and what came out is run."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gateway import __version__
from gateway.configuration.sections import ServerSection
from gateway.opensearch.address import parse_address
from gateway.settings import Flags, check_settings, load_settings
from tests.dockerfile_steps import Image, build, ignored, read_dockerfile, read_patterns, why_not
from tests.held_ports import held_port
from tests.running_gateway import DEADLINE_SECONDS, parse_frames, run_body

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
PATTERNS = read_patterns((ROOT / ".dockerignore").read_text("utf-8"))
STAGES = read_dockerfile(DOCKERFILE)
IMAGE = STAGES[-1]


# --- what the file says


def test_the_linter_has_nothing_to_say() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert linter, "make sets it up: pip install -e '.[dev]'"
    linted = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=30)
    assert (linted.stdout, linted.stderr, linted.returncode) == ("", "", 0)


def test_it_runs_as_nobody_in_particular_in_exec_form_and_ends_by_sigterm() -> None:
    user = next(index for index, step in enumerate(IMAGE.steps) if step.name == "USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", IMAGE.steps[user].words), "Kubernetes checks numbers, not names"
    assert not {step.name for step in IMAGE.steps[user:]} & {"RUN", "COPY", "ADD", "ENV"}
    assert [IMAGE.command(name) for name in ("ENTRYPOINT", "CMD")] == [["agui-gateway"], ["serve"]]
    assert IMAGE.last("STOPSIGNAL") == "SIGTERM"
    assert [step.words for step in IMAGE.steps if step.name == "VOLUME"] == ["/data"]
    assert "AGUI_GATEWAY__STORE=sqlite:////data/gateway.db" in IMAGE.last("ENV")


def test_bases_are_pinned_and_nothing_comes_from_elsewhere() -> None:
    for stage in STAGES:
        assert re.fullmatch(r"(node|python):\d[\w.]*-\w+-slim|(node|python):\d[\w.]*-slim-\w+", stage.base)
        assert all(step.name != "ADD" for step in stage.steps)
    assert not re.search(r"https?://|apt-get|curl|wget", DOCKERFILE)
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE


@pytest.mark.parametrize(
    "path",
    [
        ".env", "gateway.yaml", "gateway.db", ".git/config", ".venv/bin/python", "tests/test_container.py",
        "web-demo/node_modules/vite/index.js", "web-demo/.env", "gateway/__pycache__/page.cpython-313.pyc",
        "gateway/page_files/index.html", "gateway/models/__pycache__/demo.pyc", "dist/agui_gateway.whl", "key.pem",
    ],
)  # fmt: skip
def test_the_builder_is_not_sent(path: str) -> None:
    assert ignored(path, PATTERNS)


@pytest.mark.parametrize(
    "path",
    ["gateway/application.py", "gateway/models/demo.py", "gateway/example.yaml", "web-demo/src/main.ts", "LICENSE",
     "web-demo/.npmrc", "web-demo/package-lock.json", "constraints.txt", "pyproject.toml", "README.md"],
)  # fmt: skip
def test_the_builder_is_sent(path: str) -> None:
    assert not ignored(path, PATTERNS)


def test_it_has_the_extras_and_everything_in_it_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name: project["optional-dependencies"][name] for name in ("opensearch", "otel")}
    assert all(f"*extras['{name}']" in DOCKERFILE for name in extras)

    installed: set[str] = set()
    for line in (*project["dependencies"], *(line for lines in extras.values() for line in lines)):
        add_needed(Requirement(line), installed)
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert {"opensearch-py", "grpcio"} <= installed
    assert installed - {canonicalize_name(line.partition("==")[0]) for line in lines} == set()


def add_needed(requirement: Requirement, found: set[str]) -> None:
    """Add the names of what is installed for a requirement."""
    name = canonicalize_name(requirement.name)
    if name in found and not requirement.extras:
        return
    found.add(name)
    for each in map(Requirement, distribution(name).requires or ()):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            add_needed(each, found)


# --- the compose file


def test_compose_starts_the_image_as_it_is_meant_to_run() -> None:
    composed = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    gateway = composed["services"]["gateway"]

    assert [*composed["services"]] == ["gateway"]
    assert (ROOT / "deploy" / gateway["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    workdir = [step.words for step in IMAGE.steps if step.name == "WORKDIR"][-1]
    assert gateway["volumes"] == [f"data:{IMAGE.last('VOLUME')}", f"./gateway.yaml:{workdir}/gateway.yaml:ro"]
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    assert gateway["security_opt"] == ["no-new-privileges:true"]
    assert float(gateway["stop_grace_period"].removesuffix("s")) > ServerSection().drain_seconds
    [published] = gateway["ports"]
    assert published == f"127.0.0.1:{IMAGE.last('EXPOSE')}:{IMAGE.last('EXPOSE')}"
    # a variable that the gateway does not know would keep it from starting
    key = "a-key-that-is-long-enough"
    environ = {name: substituted(value, AGUI_GATEWAY_KEY=key) for name, value in gateway["environment"].items()}
    environ["AGUI_GATEWAY__SERVER__HOST"] = "0.0.0.0"
    server = load_settings(Flags(config=ROOT / "deploy" / "gateway.yaml"), environ=environ).server
    assert [each.key.reveal() for each in server.api_keys] == [key]
    assert not server.allow_unauthenticated
    assert server.trusted_proxies == ("127.0.0.1",)
    used = {volume.partition(":")[0] for volume in gateway["volumes"]}
    assert used - {"./gateway.yaml"} == composed["volumes"].keys()


def test_the_second_compose_file_makes_a_node_the_store() -> None:
    added = yaml.safe_load((ROOT / "deploy" / "compose.opensearch.yaml").read_text("utf-8"))
    composed = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    gateway, node = (added["services"][name] for name in ("gateway", "opensearch"))

    assert gateway.keys() == {"environment", "depends_on"}, "all else is as without the node"
    assert gateway["depends_on"] == {"opensearch": {"condition": "service_healthy"}}
    assert "wait_for_status=yellow" in node["healthcheck"]["test"][-1], "a node alone has no replicas"
    assert node["environment"]["DISABLE_SECURITY_PLUGIN"] == "true"
    assert "ports" not in node, "its security plugin is off"
    [volume] = node["volumes"]
    assert [volume.partition(":")[0]] == [*added["volumes"]]
    secrets = {"AGUI_GATEWAY_KEY": "a-key-that-is-long-enough", "MASTER_KEY": base64.b64encode(bytes(32)).decode()}
    environment = {**composed["services"]["gateway"]["environment"], **gateway["environment"]}
    environ = {name: substituted(value, **secrets) for name, value in environment.items()}
    settings = check_settings(Flags(config=ROOT / "deploy" / "gateway.yaml"), environ=environ)
    assert [key.reveal() for key in settings.server.master_keys] == [secrets["MASTER_KEY"]]
    address = parse_address(settings.store, ROOT)
    assert (address.host, address.port, address.tls) == ("opensearch", 9200, False)


def substituted(text: str, **variables: str) -> str:
    """What Compose makes of a value that may be one reference: https://docs.docker.com/reference/compose-file/interpolation/"""
    found = re.fullmatch(r"\$\{(\w+):([-?])(.*)\}", text)
    if found is None:
        return text
    name, kind, otherwise = found.groups()
    assert kind == "-" or name in variables, f"{name} {otherwise}"
    return variables.get(name, otherwise)


# --- what comes of it

needs_mounts = pytest.mark.skipif(
    why_not() is not None and "CI" not in os.environ, reason=f"steps cannot be run here: {why_not()}"
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Image]:
    """The image, but that it listens on a free port: another may be at 8000 here."""
    directory = tmp_path_factory.mktemp("image")
    context = directory / "context"
    for path in context_files():
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, context / path)
    built = build(read_dockerfile(DOCKERFILE.replace("8000", str(port))), context, directory)
    yield built[-1]
    shutil.rmtree(directory)


def context_files() -> list[str]:
    found = []
    for parent, directories, names in os.walk(ROOT):
        directories[:] = [name for name in directories if name not in ("node_modules", ".git", ".venv", "__pycache__")]
        found += [os.path.relpath(os.path.join(parent, name), ROOT) for name in names]
    return [path for path in found if not ignored(path, PATTERNS)]


@contextmanager
def container(image: Image, directory: Path, *, port: int, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """The image's command as its user, with its root file system read-only; once its health check is good."""
    log = directory / "container.log"
    kept = image.environment
    image.environment = {**kept, **variables}
    command = [*image.stage.command("ENTRYPOINT"), *image.stage.command("CMD")]
    with log.open("wb") as output:
        process = image.start(command, stdout=output, stderr=output)
    image.environment = kept
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while health(image) != 0:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE_SECONDS)


def health(image: Image) -> int:
    command = json.loads(image.stage.last("HEALTHCHECK").partition(" CMD ")[2])
    process = image.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process.wait(DEADLINE_SECONDS)


@pytest.mark.thorough
@needs_mounts
@pytest.mark.timeout(400)
def test_every_step_of_the_build_can_be_done(image: Image) -> None:
    site = next((image.root / "opt/agui-gateway/lib").glob("python3.*/site-packages"))
    assert (site / "gateway/page_files/index.html").is_file()
    assert (site / "gateway/page_files/widget.js").is_file()
    assert not (site / "pip").exists()
    assert (image.root / "data").stat().st_uid == 10001
    assert not list(image.root.rglob("node_modules"))


@pytest.mark.thorough
@needs_mounts
@pytest.mark.timeout(400)
def test_without_keys_it_refuses_to_let_everybody_in(image: Image, port: int) -> None:
    process = image.start(["agui-gateway", "serve"], stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert b"api_keys" in said
    assert health(image) == 1


@pytest.mark.thorough
@needs_mounts
@pytest.mark.timeout(400)
def test_its_user_can_write_to_its_volume_and_nowhere_else(image: Image) -> None:
    script = "id -u; for each in / /opt/agui-gateway /etc/agui-gateway /tmp /data; do touch $each/x && echo $each; done"
    process = image.start(["/bin/sh", "-c", f"{script}; rm /data/x"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert said.split() == [b"10001", b"/data"]


@pytest.mark.thorough
@needs_mounts
@pytest.mark.timeout(400)
def test_it_serves_from_a_read_only_root_and_drains_at_sigterm(image: Image, port: int, tmp_path: Path) -> None:
    with container(image, tmp_path, port=port, AGUI_GATEWAY__SERVER__ALLOW_UNAUTHENTICATED="true") as process:
        url = f"http://127.0.0.1:{port}"
        page = httpx.get(f"{url}/")
        body = run_body("What was the population of Seattle in 2023?")
        with httpx.stream("POST", f"{url}/agents/assistant/run", json=body, timeout=DEADLINE_SECONDS) as stream:
            parts = stream.iter_raw()
            begun = next(parts)
            process.send_signal(signal.SIGTERM)
            frames = parse_frames(begun + b"".join(parts))
        code = process.wait(DEADLINE_SECONDS)

    assert page.status_code == 200
    assert "not built" not in page.text
    assert frames[-1].type == "RUN_FINISHED"
    assert code == 0
    kept = list((image.root / "data").iterdir())
    assert {path.stat().st_uid for path in kept} == {10001}
    assert "gateway.db" in {path.name for path in kept}


@pytest.mark.thorough
@needs_mounts
@pytest.mark.timeout(400)
def test_a_mounted_configuration_with_keys_is_found(image: Image, port: int, tmp_path: Path) -> None:
    key = "a-key-that-is-long-enough"
    configuration = {"server": {"api_keys": [{"name": "alice", "key": key}], "host": "127.0.0.1"}}
    path = image.root / "etc/agui-gateway/gateway.yaml"
    path.write_text(yaml.safe_dump(configuration), "utf-8")
    try:
        with container(image, tmp_path, port=port):
            url = f"http://127.0.0.1:{port}/agents"
            answers = [httpx.get(url), httpx.get(url, headers={"authorization": f"Bearer {key}"})]
    finally:
        path.unlink()
    assert [answer.status_code for answer in answers] == [401, 200]
