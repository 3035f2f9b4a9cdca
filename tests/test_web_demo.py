"""The front end: what its lock file promises to every machine. `make test` runs its own checks and tests besides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

WEB_DEMO = Path(__file__).parent.parent / "web-demo"


def locked_packages() -> dict[str, dict[str, Any]]:
    """The lock file's packages by their place in node_modules; "" is the front end itself."""
    packages: dict[str, dict[str, Any]] = json.loads((WEB_DEMO / "package-lock.json").read_text("utf-8"))["packages"]
    return packages


def test_no_package_is_bound_to_a_registry() -> None:
    assert [place for place, package in locked_packages().items() if "resolved" in package] == []
    assert "registry=" not in (WEB_DEMO / ".npmrc").read_text("utf-8").replace("lockfile-registry-resolved=", "")


def test_every_package_is_held_to_its_content() -> None:
    assert [place for place, package in locked_packages().items() if place and "integrity" not in package] == []


def test_the_binaries_of_all_platforms_are_locked() -> None:
    """npm 11.17 refuses to install from a lock file that lacks one; older ones leave that platform without."""
    packages = locked_packages()
    there = {place.rpartition("node_modules/")[2] for place in packages}
    missing = {name for package in packages.values() for name in package.get("optionalDependencies", {})} - there
    assert missing == set()


def test_dependencies_are_exact() -> None:
    described = json.loads((WEB_DEMO / "package.json").read_text("utf-8"))
    versions = {**described["dependencies"], **described["devDependencies"]}
    assert {name: version for name, version in versions.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)} == {}


def test_what_the_pages_are_made_of_is_little() -> None:
    """Whatever is added here is sent to every visitor, or is somebody's job to keep: mind what it is for."""
    described = json.loads((WEB_DEMO / "package.json").read_text("utf-8"))
    assert set(described["dependencies"]) == {"@ag-ui/client", "@preact/signals", "preact"}
