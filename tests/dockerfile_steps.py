"""A Dockerfile without an engine: it is read, and each of its steps is done in a plain directory that plays the image.

    stages = read_dockerfile(text)
    images = build(stages, context, directory)
    process = images[-1].start(["agui-gateway", "serve"], read_only=True)

A base image is played by this machine: `chroot` into the directory, with the machine's own file system mounted into it
read-only, in a mount namespace of the step's own (`unshare`). That needs root and Linux: `why_not()`. What is not there
is layers, caching, and any instruction that the project's Dockerfile does not use: those are refused.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.agui_client import find_node

STEP_SECONDS: Final = 240.0
# What a step may know of the machine: how registries are reached, and which certificates they have.
_REGISTRY_VARIABLE: Final = re.compile(r"(pip|npm_config|node|ssl|requests|uv)_|.*_proxy$", re.IGNORECASE)
# Directories that an image has of its own, beside those that it sees of the machine's.
_OWN: Final = frozenset({"build", "data", "dev", "etc", "home", "host", "opt", "proc", "root", "sys", "tmp"})


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: `name` in capitals, `words` as they are written."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Stage:
    base: str
    name: str
    steps: Sequence[Step]

    def last(self, name: str) -> str:
        """The words of the last instruction of that name."""
        return next(step.words for step in reversed(self.steps) if step.name == name)

    def command(self, name: str) -> list[str]:
        """An instruction in exec form."""
        words: list[str] = json.loads(self.last(name))
        return words


def read_dockerfile(text: str) -> list[Stage]:
    """The stages, in order."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    stages: list[tuple[str, str, list[Step]]] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, words = line.partition(" ")
        if name == "FROM":
            base, _, alias = words.partition(" AS ")
            stages.append((base, alias or "image", []))
        else:
            stages[-1][2].append(Step(name, words.strip()))
    return [Stage(*stage) for stage in stages]


# --- what the builder is sent


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore keeps a path (relative, with slashes) from the builder: the last fitting pattern counts."""
    out = False
    parents = [path[: found.start()] for found in re.finditer("/", path)]
    for pattern in patterns:
        wanted = pattern.removeprefix("!").strip("/")
        if any(_glob(wanted).fullmatch(each) for each in (*parents, path)):
            out = not pattern.startswith("!")
    return out


def read_patterns(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _glob(pattern: str) -> re.Pattern[str]:
    """https://docs.docker.com/build/concepts/context/#dockerignore-files"""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        re.sub(r"\*\*/|\*\*|\*|\?|[^*?]+", lambda found: parts.get(found[0], re.escape(found[0])), pattern)
    )


# --- the directories that play images


def why_not() -> str | None:
    """What keeps steps from being run here; None: nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "mounting needs root on Linux"
    missing = [name for name in ("unshare", "mount", "chroot", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    tried = subprocess.run(["unshare", "--mount", "mount", "--bind", "/", "/mnt"], capture_output=True, text=True)
    return tried.stderr.strip() or "mounting is not permitted" if tried.returncode else None


@dataclass(slots=True)
class Image:
    """A stage that was built: what is in it stands in `root`."""

    stage: Stage
    root: Path
    environment: dict[str, str]
    directory: str = "/"
    user: str = "0:0"
    binds: list[Path] = field(default_factory=list)

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """As a step of the build: what it writes stays."""
        return subprocess.run(
            self._entered(command, read_only=False), capture_output=True, text=True, timeout=STEP_SECONDS,
            stdin=subprocess.DEVNULL, env=os.environ | self._variables(),
        )  # fmt: skip

    def start(self, command: Sequence[str], **popen: Any) -> subprocess.Popen[bytes]:
        """As the container runs: its user, and everything read-only but /data. The process is the command itself."""
        return subprocess.Popen(
            self._entered(command, read_only=True), stdin=subprocess.DEVNULL, env=self._variables(), **popen
        )

    def _variables(self) -> dict[str, str]:
        # the machine's own PATH comes last: it finds `unshare` and, for a step, what the base image would have
        return {**self.environment, "PATH": f"{self.environment['PATH']}:{os.environ['PATH']}"}

    def _entered(self, command: Sequence[str], *, read_only: bool) -> list[str]:
        root = shlex.quote(str(self.root))
        lines = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {root}"]
        lines += [f"mount --bind / {root}/host", f"mount -o remount,bind,ro {root}/host"]
        lines += [f"mount --rbind /{name} {root}/{name}" for name in ("proc", "dev")]
        for path in self.binds:
            target = shlex.quote(f"{self.root}{path}")
            lines += [f"mount --bind {shlex.quote(str(path))} {target}", f"mount -o remount,bind,ro {target}"]
        as_user = ""
        if read_only:
            lines += [f"mount --bind {root}/data {root}/data", f"mount -o remount,bind,ro {root}"]
            user, _, group = self.user.partition(":")
            as_user = f"setpriv --reuid={user} --regid={group} --clear-groups --no-new-privs --bounding-set=-all"
        inner = f"cd {shlex.quote(self.directory)} && exec {as_user} {shlex.join(command)}"
        lines.append(f"exec chroot {root} /bin/sh -c {shlex.quote(inner)}")
        return ["unshare", "--mount", "sh", "-c", "\n".join(lines)]


def build(stages: Sequence[Stage], context: Path, directory: Path) -> list[Image]:
    """Do every step of every stage.

    Raises:
        AssertionError: a step failed; with what it said.
    """
    images: list[Image] = []
    for stage in stages:
        image = _base(stage, directory / stage.name)
        for step in stage.steps:
            _STEPS[step.name](image, step.words, _Sources(context, images))
        images.append(image)
    return images


@dataclass(frozen=True, slots=True)
class _Sources:
    context: Path
    images: Sequence[Image]

    def files(self, words: Sequence[str]) -> tuple[Path, list[str]]:
        """Where a COPY takes its files from, and its words without flags."""
        flags = [word for word in words if word.startswith("--")]
        root = self.context
        for flag in flags:
            name = flag.removeprefix("--from=")
            root = next(image.root for image in self.images if image.stage.name == name)
        return root, [word for word in words if word not in flags]


def _base(stage: Stage, root: Path) -> Image:
    """A directory in which this machine's programs are found, as a base image's would be."""
    for name in ("host", "proc", "dev", "tmp", "root", "opt", "etc", "base-image"):
        (root / name).mkdir(parents=True)
    for entry in (each for each in Path("/").iterdir() if each.name not in _OWN):
        (root / entry.name).symlink_to(f"/host/{entry.name}")
    for entry in Path("/etc").iterdir():
        (root / "etc" / entry.name).symlink_to(f"/host/etc/{entry.name}")
    home = Path.home()
    for name in (".npmrc", ".config/pip", ".pip"):
        if (home / name).exists():
            (root / "root" / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (home / name).is_dir() else shutil.copy)(home / name, root / "root" / name)
    binds = [Path(sys.base_prefix)] if not Path(sys.base_prefix).is_relative_to("/usr") else []
    programs = root / "base-image"
    (programs / "python").symlink_to(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
    node = find_node()
    if node.is_relative_to("/usr"):
        for name in ("node", "npm"):
            (programs / name).symlink_to(f"/host{node.parent / name}")
    else:  # the one that PyPI's package brings
        binds.append(node.parent.parent)
        for name in ("node", "npm"):
            (programs / name).symlink_to(node.parent / name)
    for path in binds:
        (root / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if _REGISTRY_VARIABLE.match(name)}
    search = "/base-image:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return Image(stage, root, {**environment, "PATH": search, "HOME": "/root"}, binds=binds)


def _run(image: Image, words: str, sources: _Sources) -> None:
    done = image.run(["/bin/sh", "-c", words])
    assert done.returncode == 0, f"RUN {words}\n{done.stdout}\n{done.stderr}"


def _copy(image: Image, words: str, sources: _Sources) -> None:
    root, [*names, target] = sources.files(words.split())
    place = image.root / os.path.join(image.directory, target).lstrip("/")
    for name in names:
        source = root / name.lstrip("/")
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        elif len(names) > 1 or target.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)
        else:
            shutil.copy2(source, place)


def _env(image: Image, words: str, sources: _Sources) -> None:
    for word in shlex.split(words):
        name, _, value = word.partition("=")
        image.environment[name] = value.replace("$PATH", image.environment["PATH"])


def _workdir(image: Image, words: str, sources: _Sources) -> None:
    image.directory = os.path.join(image.directory, words)
    (image.root / image.directory.lstrip("/")).mkdir(parents=True, exist_ok=True)


def _user(image: Image, words: str, sources: _Sources) -> None:
    image.user = words


def _nothing(image: Image, words: str, sources: _Sources) -> None:
    """Says something to the engine, and does nothing to the files."""


_STEPS: Final[Mapping[str, Callable[[Image, str, _Sources], None]]] = {
    "RUN": _run,
    "COPY": _copy,
    "ENV": _env,
    "WORKDIR": _workdir,
    "USER": _user,
    **dict.fromkeys(("ARG", "LABEL", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"), _nothing),
}
