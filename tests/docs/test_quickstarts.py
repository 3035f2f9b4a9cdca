"""The quick starts: each page's files, programs and lines do what the page says, in their order."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import main
from gateway.configuration.sections import ServerSection
from gateway.sqlite.address import parse_address
from tests.documentation import PAGES, ROOT, example, snippet
from tests.example_gateway import ADDRESS, ALICE_KEY, example_gateway, output, program_output
from tests.running_gateway import LocalGateway

ANSWER = "3,519,000"


async def said_to(gateway: LocalGateway, line: str, directory: Path) -> str:
    """The output of a line of curl."""
    line = line.replace(ADDRESS, gateway.client.base_url).replace("curl ", "curl -sS -q --noproxy '*' ", 1)
    return await output("sh", "-c", line, directory=directory)


async def test_the_sdk_gets_an_answer_and_a_chat_of_open_webui_is_a_thread(tmp_path: Path) -> None:
    async with example_gateway("openai-sdk/gateway.yaml", tmp_path) as gateway:
        said = await program_output("openai-sdk/main.py", gateway, tmp_path)
        headers = {"authorization": f"Bearer {ALICE_KEY}", "x-openwebui-chat-id": "chat-1"}
        body = {"model": "assistant", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        await gateway.client.http.post("/v1/chat/completions", json=body, headers=headers)
        line = snippet("docs/quickstart-openai.md", "sh", "/threads")
        listed = json.loads(await said_to(gateway, line, tmp_path))

    assert said.startswith("['assistant']\n")
    assert ANSWER in said
    assert [thread["id"] for thread in listed["threads"]] == ["chat-1"]


async def test_a_script_for_ml_commons_works_with_another_host(tmp_path: Path) -> None:
    async with example_gateway("opensearch-py/gateway.yaml", tmp_path) as gateway:
        *answer, question = (await program_output("opensearch-py/main.py", gateway, tmp_path)).splitlines()
        line = snippet("docs/quickstart-ml-commons.md", "sh", "_execute/stream")
        chunks = await said_to(gateway, line, tmp_path)

    assert ANSWER in "".join(answer)
    assert question == "What was the population of Seattle in 2023?"
    read = [json.loads(each.removeprefix("data: ")) for each in chunks.strip().split("\n\n")]
    words: list[Any] = [each["inference_results"][0]["output"][2]["dataAsMap"]["content"] for each in read]
    assert ANSWER in "".join(words)


def service() -> Mapping[str, str]:
    """The section `[Service]` of the unit in deploy/."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # its names have capitals
    unit.read(ROOT / "deploy" / "agui-gateway.service")
    return unit["Service"]


def test_the_service_starts_the_command_and_gives_runs_their_time(capsys: pytest.CaptureFixture[str]) -> None:
    program, command, *options = shlex.split(service()["ExecStart"])
    assert main([command, "--help"]) == 0
    helped = capsys.readouterr().out
    assert [each for each in options if each.startswith("--") and each not in helped] == []
    assert Path(program).name == "agui-gateway"
    store = options[options.index("--store") + 1]
    assert parse_address(store, Path("/")).path == Path(f"/var/lib/{service()['StateDirectory']}/gateway.db")
    assert int(service()["TimeoutStopSec"]) > ServerSection().drain_seconds


def test_the_server_s_commands_put_everything_where_the_service_looks() -> None:
    install = snippet("docs/quickstart-server.md", "", "useradd")
    copy = snippet("docs/quickstart-server.md", "", "systemctl daemon-reload")
    proxy = snippet("docs/quickstart-server.md", "", "reload caddy")
    words = shlex.split(service()["ExecStart"])
    configuration, user = words[words.index("--config") + 1], service()["User"]
    pip = Path(words[0]).with_name("pip")

    assert re.findall(r"^useradd .* (\S+)$", install, re.MULTILINE) == [user]
    assert f"python3 -m venv {pip.parents[1]}\n{pip} install .\n" in install
    assert f"-g {user} deploy/gateway.yaml {configuration}\n" in install
    assert f"install -D -m 0600 /dev/null {service()['EnvironmentFile']}\n" in install
    assert install.endswith(f" > {service()['EnvironmentFile']}\n")
    [variable] = re.findall(r'echo "(\w+)=', install)
    assert f"${{env:{variable}}}" in (ROOT / "deploy" / "gateway.yaml").read_text("utf-8")
    assert copy.startswith("cp deploy/agui-gateway.service /etc/systemd/system/\n")
    assert proxy.startswith("cp deploy/Caddyfile /etc/caddy/Caddyfile\n")


def test_the_server_s_backup_reads_the_store_of_the_service() -> None:
    *_, user, python, program, store, copy = snippet("docs/quickstart-server.md", "", "backup.py").split()
    words = shlex.split(service()["ExecStart"])

    assert user == service()["User"]
    assert Path(python).parent == Path(words[0]).parent
    assert f"`{program}`" in PAGES["docs/quickstart-server.md"]
    assert f"sqlite:///{store}" == words[words.index("--store") + 1]
    assert Path(copy).parent == Path(store).parent, "the service's user may write there"


async def test_a_service_that_has_started_says_so(tmp_path: Path) -> None:
    async with example_gateway("openai-sdk/gateway.yaml", tmp_path) as gateway:
        said = await said_to(gateway, snippet("docs/quickstart-server.md", "sh", "readyz"), tmp_path)

    assert said.startswith('{"status":"ready",')
    assert '`{"status":"ready",...}`' in PAGES["docs/quickstart-server.md"]


def test_the_server_s_page_names_files_that_are_there() -> None:
    words = PAGES["docs/quickstart-server.md"].split()
    named = {word.strip("`,.") for word in words if word.strip("`").startswith("deploy/")}
    assert {f"deploy/{name}" for name in ("gateway.yaml", "agui-gateway.service", "Caddyfile")} <= named
    assert [name for name in named if not (ROOT / name).is_file()] == []


async def test_the_line_that_makes_a_key_makes_one_for_the_configuration(tmp_path: Path) -> None:
    lines = {
        "openai-sdk": snippet("docs/quickstart-openai.md", "", "openssl"),
        "opensearch-py": snippet("docs/quickstart-ml-commons.md", "", "openssl"),
    }
    for name, line in lines.items():
        made = await output("sh", "-c", f'{line}echo "$ALICE_KEY"', directory=tmp_path)

        assert re.fullmatch(r"[0-9a-f]{64}\n", made)
        assert "${env:ALICE_KEY}" in example(f"{name}/gateway.yaml")


def test_open_webui_is_told_the_gateway_s_address_and_key_and_sends_the_chat_s_id() -> None:
    command = snippet("docs/quickstart-openai.md", "", "open-webui serve")
    read = yaml.safe_load(example("openai-sdk/gateway.yaml"))["protocols"]["chat_completions"]["thread_headers"]

    assert f"OPENAI_API_BASE_URL={ADDRESS}/v1 OPENAI_API_KEY=$ALICE_KEY " in command
    assert "ENABLE_FORWARD_USER_INFO_HEADERS=true" in command
    assert read == ["X-OpenWebUI-Chat-Id"]


def test_the_pages_are_made_and_served_as_their_examples_are() -> None:
    make = snippet("docs/quickstart-page.md", "", "npm install")
    serve = snippet("docs/quickstart-page.md", "", "npx vite").removeprefix("npx ").strip()
    site = snippet("docs/quickstart-website.md", "", "http.server").replace("python3", "python").strip()
    package = json.loads(example("http-agent/page/package.json"))
    [installed] = re.findall(r"^npm install (.+)$", make, re.MULTILINE)

    # `@` also begins the name of a package that belongs to somebody
    assert {re.sub(r"(?<=.)@.*", "", name) for name in installed.split()} == {
        *package["dependencies"],
        *package["devDependencies"],
    }
    assert serve == package["scripts"]["start"]
    assert f"site: {site}" in example("website/Procfile").splitlines()
