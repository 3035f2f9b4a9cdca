"""The front end, and those that tests install: what their lock files promise to every machine.

`make test` runs the front end's own checks and tests besides.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

WEB_DEMO = Path(__file__).parent.parent / "web-demo"


TESTS = Path(__file__).parent
FOLDERS = (WEB_DEMO, TESTS / "clients", TESTS / "front_ends", TESTS / "openai_clients")
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def locked_packages(folder: Path) -> dict[str, dict[str, Any]]:
    """The lock file's packages by their place in node_modules; "" is the folder's own."""
    packages: dict[str, dict[str, Any]] = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
    return packages


@every_folder
def test_no_package_is_bound_to_a_registry(folder: Path) -> None:
    assert [place for place, package in locked_packages(folder).items() if "resolved" in package] == []
    assert "registry=" not in (folder / ".npmrc").read_text("utf-8").replace("lockfile-registry-resolved=", "")


@every_folder
def test_every_package_is_held_to_its_content(folder: Path) -> None:
    packages = locked_packages(folder)
    assert [place for place, package in packages.items() if place and "integrity" not in package] == []


@every_folder
def test_the_binaries_of_all_platforms_are_locked(folder: Path) -> None:
    """npm 11.17 refuses to install from a lock file that lacks one; older ones leave that platform without."""
    packages = locked_packages(folder)
    there = {place.rpartition("node_modules/")[2] for place in packages}
    missing = {name for package in packages.values() for name in package.get("optionalDependencies", {})} - there
    assert missing == set()


@every_folder
def test_dependencies_are_exact(folder: Path) -> None:
    described = json.loads((folder / "package.json").read_text("utf-8"))
    versions = {**described["dependencies"], **described.get("devDependencies", {})}
    exact = re.compile(r"(npm:[@\w/-]+@)?\d+\.\d+\.\d+")
    assert {name: version for name, version in versions.items() if not exact.fullmatch(version)} == {}


def test_what_the_pages_are_made_of_is_little() -> None:
    """Whatever is added here is sent to every visitor, or is somebody's job to keep: mind what it is for."""
    described = json.loads((WEB_DEMO / "package.json").read_text("utf-8"))
    assert set(described["dependencies"]) == {"@ag-ui/client", "@preact/signals", "preact"}
