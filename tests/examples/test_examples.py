"""What all examples promise: a README with one command, a test, and the text that the pages show of their files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.documentation import EXAMPLES, PAGES, ROOT, example, snippet

MOST_LINES = 30
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
every_example = pytest.mark.parametrize("name", FOLDERS)
# file -> the snippet that it is
SHOWN = {
    "assistant-ui/page/history.ts": snippet("docs/clients.md", "ts", "threadHistory"),
    "assistant-ui/page/loaded.tsx": snippet("docs/clients.md", "tsx", "OnceLoaded"),
    "copilotkit/page/approval.tsx": snippet("docs/clients.md", "tsx", "useInterrupt"),
    "copilotkit/page/runtime.ts": snippet("docs/clients.md", "ts", "GatewayRunner"),
    "fastapi/main.py": snippet("docs/embedding.md", "python", "FastAPI("),
    "http-agent/gateway.yaml": snippet("docs/quickstart-page.md", "yaml", "agents:"),
    "http-agent/page/index.html": snippet("docs/quickstart-page.md", "html", "main.js"),
    "http-agent/page/main.js": snippet("docs/quickstart-page.md", "js", "HttpAgent"),
    "http-agent/shop.py": snippet("docs/quickstart-page.md", "python", "def refund"),
    "openai-sdk/gateway.yaml": snippet("docs/quickstart-openai.md", "yaml", "alice"),
    "openai-sdk/main.py": snippet("docs/quickstart-openai.md", "python", "import OpenAI"),
    "opensearch-py/gateway.yaml": snippet("docs/quickstart-ml-commons.md", "yaml", "alice"),
    "opensearch-py/main.py": snippet("docs/quickstart-ml-commons.md", "python", "opensearchpy"),
    "website/gateway.yaml": snippet("docs/quickstart-website.md", "yaml", "agents:"),
    "website/site/index.html": snippet("docs/quickstart-website.md", "html", "widget.js"),
}
# file -> the snippet that is a part of it, or that it is a part of
PARTLY_SHOWN = {
    "shell/main.sh": snippet("README.md", "sh", "curl"),
    "plug-in/dice_plugin/dice.py": snippet("docs/architecture.md", "python", "TOOL_TYPE = "),
}
FILES_IN_TESTS = {
    file
    for path in (ROOT / "tests").rglob("*.py")
    if path != Path(__file__)
    for file in re.findall(r'"([\w-]+/[\w./-]+)"', path.read_text("utf-8"))
}


@pytest.mark.parametrize("file", SHOWN)
def test_a_page_shows_the_file_of_an_example(file: str) -> None:
    assert example(file) == SHOWN[file]


@pytest.mark.parametrize("file", PARTLY_SHOWN)
def test_a_page_shows_a_part_of_an_example(file: str) -> None:
    text, shown = example(file), PARTLY_SHOWN[file]
    assert shown in text or text in shown


@every_example
def test_a_readme_is_short_and_has_the_one_command(name: str) -> None:
    text = example(f"{name}/README.md")
    commands = re.findall(r"^```.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    assert len(text.splitlines()) <= MOST_LINES
    assert commands == [f"make example NAME={name}\n"]
    assert "## " not in text


@every_example
def test_a_readme_names_the_files_that_there_are(name: str) -> None:
    named = re.findall(r"`([\w/-]+\.(?:py|sh|tsx?|js|html|yaml|toml))`", example(f"{name}/README.md"))

    assert named
    assert [file for file in named if not (EXAMPLES / name / file).is_file()] == []


@every_example
def test_the_lines_that_are_started_name_what_there_is(name: str) -> None:
    folder = EXAMPLES / name
    for line in example(f"{name}/Procfile").splitlines():
        match line.partition(": ")[2].split():
            case ["agui-gateway", "serve", "--config", file] | ["python", file] | ["sh", file]:
                assert (folder / file).is_file()
            case ["uvicorn", app]:
                assert (folder / app.replace(":app", ".py")).is_file()
            case ["python", "-m", "http.server", "8080", "--bind", "127.0.0.1", "--directory", site]:
                assert (folder / site / "index.html").is_file()
            case ["npm", *words, "--prefix", page]:
                assert words[-1] in json.loads((folder / page / "package.json").read_text("utf-8"))["scripts"]
            case words:
                pytest.fail(f"no test here knows how to try {words}")


@every_example
def test_an_example_is_run_by_a_test(name: str) -> None:
    named = [file for file in FILES_IN_TESTS if file.startswith(f"{name}/")]

    assert any((EXAMPLES / file).is_file() for file in named)


@every_example
def test_an_example_is_in_the_table(name: str) -> None:
    assert f"]({name}/README.md)" in example("README.md")


def test_the_pages_for_readers_lead_to_the_examples() -> None:
    for page in ("README.md", "docs/README.md"):
        assert "examples/README.md)" in PAGES[page]


@pytest.mark.parametrize("package", sorted(path.parent for path in EXAMPLES.glob("*/page/package.json")), ids=str)
def test_an_example_has_the_versions_that_the_tests_have(package: Path) -> None:
    described = json.loads((package / "package.json").read_text("utf-8"))
    locked: dict[str, Any] = {}
    for folder in ("web-demo", "tests/front_ends") if package.parent.name != "http-agent" else ("web-demo",):
        tested = json.loads((ROOT / folder / "package.json").read_text("utf-8"))
        locked |= {**tested["dependencies"], **tested["devDependencies"], **tested.get("overrides", {})}
    versions = {**described["dependencies"], **described["devDependencies"], **described.get("overrides", {})}

    assert {name: version for name, version in versions.items() if locked.get(name) != version} == {}
    assert "registry" not in (package / ".npmrc").read_text("utf-8")
