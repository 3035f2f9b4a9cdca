"""What a node is assembled from: the right archive, a Java that is new enough, a whole cache."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.opensearch import installation
from tests.opensearch.installation import OLDEST_JAVA, VERSION, NoNodeError, cache_folder, find_java, unpack

# Maven, as far as it is asked: it brings an archive.
MAVEN = """\
#!/bin/sh
echo fetched >> {log}
for word; do case $word in -DoutputDirectory=*) cp {archive} "${{word#*=}}" ;; esac; done
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / f"opensearch-{VERSION}.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(f"opensearch-{VERSION}/lib/server.jar", b"the server")
    return path


@pytest.fixture
def fetches(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each fetch by Maven."""
    log, programs = tmp_path / "fetches", tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").write_text(MAVEN.format(log=log, archive=archive))
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return log


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def virtual_machine(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/java").touch(mode=0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path, archive: Path) -> None:
    pinned = digest(archive)
    with archive.open("ab") as file:
        file.write(b"!")

    with pytest.raises(NoNodeError, match=rf"another opensearch-{VERSION}.zip: .* not {pinned}"):
        unpack(archive, tmp_path / "home", pinned)

    assert not (tmp_path / "home").exists()


def test_a_refused_archive_is_fetched_anew(tmp_path: Path, archive: Path, fetches: Path) -> None:
    cache, pinned = tmp_path / "cache", digest(archive)
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-1])
    with pytest.raises(NoNodeError, match="digest"):
        installation.installation(cache, pinned)
    archive.write_bytes(whole)

    found = installation.installation(cache, pinned)

    assert (found.home / "lib/server.jar").read_bytes() == b"the server"


def test_a_whole_cache_is_used_and_a_damaged_one_is_fetched_anew(tmp_path: Path, archive: Path, fetches: Path) -> None:
    cache, pinned = tmp_path / "cache", digest(archive)
    jar = installation.installation(cache, pinned).home / "lib/server.jar"
    installation.installation(cache, pinned)
    once = fetches.read_text()
    jar.write_bytes(b"the ser")
    installation.installation(cache, pinned)

    assert once == "fetched\n"
    assert fetches.read_text() == "fetched\nfetched\n"
    assert jar.read_bytes() == b"the server"


def test_a_failure_of_maven_is_the_reason(tmp_path: Path, fetches: Path) -> None:
    (tmp_path / "programs/mvn").write_text("#!/bin/sh\necho '[ERROR] Unknown host'; exit 1\n")

    with pytest.raises(NoNodeError, match=r"Maven could not fetch OpenSearch: .*Unknown host"):
        installation.installation(tmp_path / "cache")


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert cache_folder().parent == Path("/somewhere/agui-gateway")


@pytest.mark.parametrize("place", ["JAVA_HOME", "the folder of all", "PATH"])
def test_the_java_of_the_system_is_taken_where_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    old, new = tmp_path / "machines/a", tmp_path / ("machines/b" if place == "the folder of all" else "elsewhere")
    virtual_machine(old, f"{OLDEST_JAVA - 1}.0.9")
    virtual_machine(new, f"{OLDEST_JAVA}.0.1")
    monkeypatch.setattr(installation, "_VIRTUAL_MACHINES", tmp_path / "machines")
    monkeypatch.setenv("JAVA_HOME", str(new if place == "JAVA_HOME" else old))
    monkeypatch.setenv("PATH", str(new / "bin" if place == "PATH" else old / "bin"))

    assert find_java() == new
