"""A new file, or a package with an entry point, is all that a new part needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.loop import AgentType
from gateway.model import ModelProvider
from gateway.parts import collect, find
from gateway.search_engine import SearchEngineType
from gateway.store import StoreType
from gateway.tool import ToolType

PROVIDER = """
from gateway.model import ModelProvider

def open_model(settings, environment):
    raise NotImplementedError

PROVIDER = ModelProvider({name!r}, open_model)
"""


@pytest.fixture
def write_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Writes a file into a directory that `gateway.models` and Python find modules in; forgets all of it afterwards."""
    models = import_module("gateway.models")
    room = tmp_path / "room"
    packages = tmp_path / "packages"
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(room)])
    monkeypatch.syspath_prepend(str(packages))
    before = dict(sys.modules)
    attributes = set(vars(models))

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        invalidate_caches()
        return path

    yield write
    for name in set(sys.modules) - set(before):
        if name.startswith(("gateway.models.", "foreign_")):
            del sys.modules[name]
    for name in set(vars(models)) - attributes:
        delattr(models, name)


def entry_point(write: Callable[[str, str], Path], value: str, name: str = "foreign") -> None:
    write(f"packages/{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    write(f"packages/{name}-1.0.dist-info/entry_points.txt", f"[gateway.models]\n{name} = {value}\n")


@pytest.mark.parametrize(
    ("room", "kind"),
    [
        ("models", ModelProvider),
        ("tools", ToolType),
        ("loops", AgentType),
        ("stores", StoreType),
        ("search_engines", SearchEngineType),
    ],
)
def test_every_room_has_parts_under_their_own_names(room: str, kind: type[ModelProvider]) -> None:
    parts = collect(room, kind)
    assert parts
    assert all(isinstance(part, kind) and part.name == name for name, part in parts.items())


def test_a_file_dropped_into_a_room_is_a_part(write_file: Callable[[str, str], Path]) -> None:
    assert "dropped/in" not in collect("models", ModelProvider)
    write_file("room/dropped_in.py", PROVIDER.format(name="dropped/in"))
    assert collect("models", ModelProvider)["dropped/in"].name == "dropped/in"


def test_a_package_dropped_into_a_room_is_a_part(write_file: Callable[[str, str], Path]) -> None:
    write_file("room/large_provider/wire.py", "")
    write_file("room/large_provider/__init__.py", PROVIDER.format(name="large"))
    assert "large" in collect("models", ModelProvider)


def test_a_file_without_a_part_and_parts_of_other_kinds_are_passed_over(write_file: Callable[[str, str], Path]) -> None:
    before = set(collect("models", ModelProvider))
    write_file("room/no_part.py", "from gateway.tool import ToolType\nTYPE = ToolType('odd', None)\nPROVIDER = 1\n")
    assert set(collect("models", ModelProvider)) == before


def test_a_part_that_another_file_imports_counts_once(write_file: Callable[[str, str], Path]) -> None:
    write_file("room/first_one.py", PROVIDER.format(name="one"))
    write_file("room/second_one.py", "from gateway.models.first_one import PROVIDER\n")
    assert "one" in collect("models", ModelProvider)


def test_two_parts_of_one_name_fail_and_say_where_they_are(write_file: Callable[[str, str], Path]) -> None:
    write_file("room/first_one.py", PROVIDER.format(name="twice"))
    write_file("room/second_one.py", PROVIDER.format(name="twice"))
    expected = "two parts are called 'twice': one in gateway.models.first_one, one in gateway.models.second_one"
    with pytest.raises(ConfigurationError, match=expected):
        collect("models", ModelProvider)


@pytest.mark.parametrize("value", ["foreign_provider", "foreign_provider:PROVIDER"])
def test_an_entry_point_adds_a_part(write_file: Callable[[str, str], Path], value: str) -> None:
    write_file("packages/foreign_provider.py", PROVIDER.format(name="foreign"))
    entry_point(write_file, value)
    assert collect("models", ModelProvider)["foreign"].name == "foreign"


def test_the_installed_packages_are_read_once_for_all_rooms(
    write_file: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[object] = []

    class CountingFinder(DistributionFinder):
        def find_distributions(self, context: object = None) -> Iterator[Distribution]:
            readings.append(context)
            return iter(())

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, CountingFinder()])
    for room in ("models", "stores"):
        collect(room, ModelProvider)
    assert len(readings) == 1


def test_an_entry_point_cannot_replace_a_part(write_file: Callable[[str, str], Path]) -> None:
    write_file("packages/foreign_provider.py", PROVIDER.format(name="demo"))
    entry_point(write_file, "foreign_provider")
    with pytest.raises(ConfigurationError, match="two parts are called 'demo'"):
        collect("models", ModelProvider)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("", "foreign_broken", "is neither a ModelProvider nor a module with one"),
        ("PROVIDER = 1", "foreign_broken:PROVIDER", "is neither a ModelProvider"),
        ("", "foreign_broken:PROVIDER", "cannot be loaded"),
        ("import a_package_that_is_not_there", "foreign_broken", "cannot be loaded"),
        ("1 / 0", "foreign_broken", "cannot be loaded"),
    ],
)
def test_an_entry_point_that_gives_no_part_fails_by_its_name(
    write_file: Callable[[str, str], Path], text: str, value: str, expected: str
) -> None:
    write_file("packages/foreign_broken.py", text)
    entry_point(write_file, value)
    with pytest.raises(ConfigurationError, match=f"the entry point 'foreign' = '{value}' .*{expected}"):
        collect("models", ModelProvider)


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    parts = collect("models", ModelProvider)
    assert find(parts, "demo", "model provider") is parts["demo"]
    with pytest.raises(ConfigurationError) as caught:
        find(parts, "bedrock/conserve", "model provider")
    message = caught.value.message
    assert message.startswith("no model provider is called 'bedrock/conserve'; there are: ")
    assert all(name in message for name in parts)
    assert message.endswith("did you mean 'bedrock/converse'?")
    with pytest.raises(ConfigurationError) as caught:
        find(parts, "%%%", "model provider")
    assert "did you mean" not in caught.value.message


def test_a_start_without_tool_servers_does_not_wait_for_their_package() -> None:
    code = """
import sys
from gateway.configuration.known_parts import known_parts

known_parts()
sys.exit("mcp" in sys.modules)
"""

    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0
