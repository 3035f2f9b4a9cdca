"""The command line, as a person and a script use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.cli import address, curl_line, main, startup_banner
from gateway.settings import Flags, Settings, load_settings
from tests.running_gateway import gateway_command

GOOD = """\
agents:
  - id: helper
    name: Helper
    model: {model_provider: demo}
    tools:
      - {type: PythonTool, name: add, parameters: {function: "gateway.sample_tools:add"}}
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AGUI_GATEWAY")]:
        monkeypatch.delenv(name)
    return tmp_path


def settings_of(text: str, **environ: str) -> Settings:
    Path("gateway.yaml").write_text(text)
    return load_settings(Flags(config=Path("gateway.yaml")), environ=environ)


def test_a_good_file_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    Path("g.yaml").write_text(GOOD)
    assert main(["config", "check", "g.yaml"]) == 0
    assert capsys.readouterr() == ("g.yaml: good; 1 agent: helper\n", "")


def test_a_file_without_agents_is_said_to_be_an_empty_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gateway.yaml").write_text("server: {port: 8001}\n")
    assert main(["config", "check", "gateway.yaml"]) == 0
    assert capsys.readouterr().out.startswith("gateway.yaml: good, but an empty gateway: no agents are configured")
    assert main(["agents"]) == 0
    out, err = capsys.readouterr()
    assert (out, "no agents are configured" in err) == ("", True)
    assert main(["agents", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["agents", "--demo"]) == 0
    assert capsys.readouterr().out.startswith("assistant  Assistant: demo model")


def test_a_bad_file_is_named_with_lines_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("g.yaml").write_text("sever: {}\n" + GOOD.replace("sample_tools:add", "sample_tools:ad"))
    assert main(["config", "check", "g.yaml"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "g.yaml:1:1: sever: is not a known key; did you mean 'server'?\n"
    Path("g.yaml").write_text(GOOD.replace("sample_tools:add", "sample_tools:ad"))
    assert main(["config", "check", "g.yaml"]) == 1
    assert capsys.readouterr().err.startswith("g.yaml:6:52: agents[0].tools[0].parameters.function: ")


def test_every_wrong_parameter_of_a_tool_is_named_with_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["parameters:", "  function: gateway.sample_tools:add", "  max_threds: 4", "  max_threads: many"]
    tool = "\n".join(f"        {line}" for line in lines)
    Path("g.yaml").write_text(f"agents:\n  - id: a\n    model: {{model_provider: demo}}\n    tools:\n"
                              f"      - type: PythonTool\n{tool}\n")  # fmt: skip
    assert main(["config", "check", "g.yaml"]) == 1
    unknown, no_number = capsys.readouterr().err.splitlines()
    where = "agents[0].tools[0].parameters"
    assert unknown == f"g.yaml:8:11: {where}.max_threds: is not known; did you mean 'max_threads'?"
    assert no_number.startswith(f"g.yaml:9:11: {where}.max_threads: cannot be used: ")


async def test_serve_says_as_much_as_config_check(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = GOOD.replace("sample_tools:add", "sample_tools:ad")
    (directory / "g.yaml").write_text(wrong + "  - id: other" + wrong.partition("- id: helper")[2])
    assert main(["config", "check", "g.yaml"]) == 1
    checked = capsys.readouterr().err
    code, said = await gateway_command(directory, "serve", "--config", "g.yaml", "--port", "0")

    assert len(checked.splitlines()) == 2
    assert (code, said.endswith(checked)) == (1, True)
    assert "Traceback" not in said


def test_a_missing_file_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["config", "check", "none.yaml"], ["serve", "--config", "none.yaml"], ["agents", "--config", "x"]):
        assert main(command) == 1
        assert "cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["sing"],
        ["serve", "--port", "http"],
        ["serve", "--port", "70000"],
        ["serve", "--demo", "--config", "g.yaml"],
        ["serve", "--port", "-1"],
        ["config"],
        ["config", "check"],
        ["serve", "--nonsense"],
    ],
)
def test_wrong_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: agui-gateway" in err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agui-gateway {__version__}\n"


def test_the_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "agui-gateway configuration"


def test_the_example_is_a_good_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "example"]) == 0
    Path("mine.yaml").write_text(capsys.readouterr().out)
    assert main(["config", "check", "mine.yaml"]) == 0
    assert capsys.readouterr().err == ""


def test_agents_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gateway.yaml").write_text(GOOD)
    assert main(["agents"]) == 0
    assert capsys.readouterr().out.startswith("helper  Helper: demo model, not an LLM")
    assert main(["agents", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["id"], row["path"], row["tools"]) == ("helper", "/agents/helper/run", ["add"])


def test_the_module_runs_and_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "gateway", "config", "schema"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert err == b""
    assert process.returncode == 0


# --- what serve prints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("{}", "http://127.0.0.1:8123"),
        ("{host: '::1'}", "http://[::1]:8123"),
        ("{host: 0.0.0.0, allow_unauthenticated: true}", "http://127.0.0.1:8123"),
        ("{host: '::', allow_unauthenticated: true}", "http://[::1]:8123"),
        ("{public_url: 'https://agents.example/base/', allow_unauthenticated: true}", "https://agents.example/base"),
    ],
)
def test_the_address_is_one_that_a_person_can_open(server: str, expected: str) -> None:
    assert address(settings_of(f"server: {server}\n{GOOD}"), 8123) == expected


def test_the_banner_says_where_everything_is() -> None:
    banner = startup_banner(settings_of(GOOD), "http://127.0.0.1:8000")
    assert "http://127.0.0.1:8000/\n" in banner
    assert "http://127.0.0.1:8000/docs" in banner
    assert "http://127.0.0.1:8000/agents/helper/run" in banner
    assert "http://127.0.0.1:8000/shop" in banner
    assert "demo model, not an LLM" in banner
    assert "curl -N" in banner


def test_the_banner_has_the_tag_that_puts_a_chat_on_a_page() -> None:
    banner = startup_banner(settings_of(GOOD), "https://agents.example/base")
    assert '<script type="module" src="https://agents.example/base/widget.js" data-agent="helper"></script>' in banner


def test_the_tag_has_the_publishable_key_and_never_another() -> None:
    keys = """\
server:
  api_keys: [{name: alice, key: key-of-alice-0123456789}]
  publishable_keys: [{name: shop, key: "pk_<for>-the-shop-01234", origins: ["https://shop.example"], agents: [second]}]
"""
    second = "  - {id: second, model: {model_provider: demo}}\n"
    banner = startup_banner(settings_of(keys + GOOD + second), "https://agents.example")
    assert "https://shop.example:\n" in banner
    assert 'data-agent="second" data-key="pk_&lt;for&gt;-the-shop-01234"></script>' in banner
    assert "key-of-alice" not in banner


def test_with_secret_keys_alone_there_is_no_tag_that_would_work() -> None:
    banner = startup_banner(
        settings_of(f"server: {{api_keys: [{{name: alice, key: key-of-alice-0123456789}}]}}\n{GOOD}"),
        "http://g.example",
    )
    assert "server.publishable_keys" in banner
    assert "<script" not in banner


def test_the_banner_says_where_no_page_is() -> None:
    banner = startup_banner(settings_of(GOOD), "http://127.0.0.1:8000", has_page=False)
    assert "make page" in banner
    assert "widget.js" not in banner
    assert "/shop" not in banner
    assert "curl -N" in banner


def test_the_banner_of_an_empty_gateway_has_nothing_to_paste() -> None:
    banner = startup_banner(settings_of("server: {port: 8001}\n"), "http://127.0.0.1:8001")
    assert "No agents are configured; add one under 'agents'" in banner
    assert "curl" not in banner
    assert "<script" not in banner


def test_where_only_visitors_get_in_no_line_is_offered_that_would_be_refused() -> None:
    key = "{name: shop, key: pk_shop_0123456789, origins: ['https://shop.example'], agents: [helper]}"
    banner = startup_banner(settings_of(f"server: {{publishable_keys: [{key}]}}\n{GOOD}"), "http://127.0.0.1:8000")
    assert "curl" not in banner
    assert "of: shop. For yourself add a key to server.api_keys." in banner


def paste(line: str, directory: Path, **environ: str) -> list[str]:
    """What `curl` is given when a POSIX shell runs the line."""
    curl = directory / "curl"
    curl.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    curl.chmod(0o755)
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.run(
        ["sh", "-c", line], env={"PATH": path, **environ}, capture_output=True, text=True, timeout=30, check=True
    )
    arguments: list[str] = json.loads(shell.stdout)
    return arguments


def test_the_curl_line_works_when_pasted(directory: Path) -> None:
    arguments = paste(curl_line(settings_of(GOOD), "http://127.0.0.1:8000"), directory)
    assert arguments[:2] == ["-N", "http://127.0.0.1:8000/agents/helper/run"]
    headers = [arguments[index + 1] for index, word in enumerate(arguments) if word == "-H"]
    assert headers == ["Content-Type: application/json", "Accept: text/event-stream"]
    body = json.loads(arguments[arguments.index("-d") + 1])
    assert body["runId"].removeprefix("run-").isdigit(), "a second paste is another run, not a replay or a conflict"
    assert body["threadId"].removeprefix("thread-").isdigit()
    assert body["messages"][0]["role"] == "user"


def test_with_keys_the_line_takes_the_key_from_a_variable(directory: Path) -> None:
    key = "key-of-alice-0123456789"
    settings = settings_of(f"server: {{api_keys: [{{name: alice, key: {key}}}]}}\n{GOOD}")
    banner = startup_banner(settings, "http://127.0.0.1:8000")
    assert key not in banner
    assert "alice" in banner
    arguments = paste(curl_line(settings, "http://127.0.0.1:8000"), directory, AGUI_GATEWAY_KEY=key)
    assert f"Authorization: Bearer {key}" in arguments
