"""The A2A project's Technology Compatibility Kit before a gateway of its own process. `make conformance` runs this.

The suite (branch 1.0-dev, commit 357c4a8, see LICENSE) is in no package registry, so it is kept here as an archive. Its
agent is loops/a2a_tck.py. What it has no test for in one transport alone, as the cards, is run with each.
https://github.com/a2aproject/a2a-tck
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

import pytest

from tests.missing_parts import missing_part
from tests.running_gateway import serving_process, write_configuration

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".venv/bin/python"
ARCHIVE: Final = HERE / "a2a-tck-357c4a8.tar.xz"
TRANSPORTS: Final = ("jsonrpc", "http_json")
SUITE_SECONDS: Final = 200.0
FAR_FEWER_THAN_THERE_ARE: Final = 60

LAST_MODIFIED: Final = "TestAgentCardLastModified.test_last_modified_present"
STRICT_CARD: Final = "TestAgentCardStructure.test_agent_card_validates_against_schema"
OWN_FAILURES: Final[Mapping[str, str]] = {
    LAST_MODIFIED: "the specification says MAY, and the gateway's card has no date: its ETag is made of its content",
    STRICT_CARD: "the suite's schema knows no members of 0.3, which a card for both versions has; protocols.a2a.strict"
    " leaves them out",
}
"""What fails although the gateway is right, and why."""
RIGHT_SKIPS: Final = re.compile(
    r"Transport '\w+' not configured"
    r"|(gRPC|JSON-RPC|HTTP\+JSON|http_json|HTTP_JSON) transport not configured"
    r"|No requirements at this level"
    r"|Agent card does not declare (capabilities for: \['agent-card'\]|urn:a2a:tck:required-extension as required)"
    r"|Agent supports (streaming|push notifications)(; cannot trigger .*)?$"
)
"""Why tests are skipped that are not for this agent. Anything else would hide a failure."""

pytestmark = pytest.mark.timeout(SUITE_SECONDS + 60)


class Outcome(NamedTuple):
    """What became of a test. `word` is `passed`, `failed` or `skipped`; `said` why."""

    word: str
    said: str


Report = dict[str, Outcome]


def report_of(path: Path) -> Report:
    """The outcomes by test."""
    found: Report = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        word, said = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                word, said = "failed", child.get("message", "")
            elif child.tag == "skipped":
                word, said = "skipped", child.get("message", "")
        found[name] = Outcome(word, said)
    return found


async def run_suite(suite: Path, url: str, transport: str, *more: str) -> Report:
    """Run the suite, in a copy of its own: it writes its report into its folder."""
    command = [str(PYTHON), "run_tck.py", "--sut-host", url, "--transport", transport, *(["--", *more] if more else [])]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=suite,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NO_PROXY": "127.0.0.1,localhost"},
    )
    try:
        async with asyncio.timeout(SUITE_SECONDS):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    report = suite / "reports/junitreport.xml"
    assert report.exists(), printed.decode()
    return report_of(report)


def unpacked(directory: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


async def reports_of(directory: Path) -> dict[str, Report]:
    """What became of the suite with each transport, and of its tests of cards where only 1.0 is served."""
    strict, cards = {"protocols": {"a2a": {"strict": True}}}, ("-k", "test_agent_card")
    names = [*TRANSPORTS, "strict"]
    reports = await asyncio.gather(
        *[report_with(directory / transport, transport) for transport in TRANSPORTS],
        report_with(directory / "strict", TRANSPORTS[0], *cards, sections=strict),
    )
    return dict(zip(names, reports, strict=True))


async def report_with(
    directory: Path, transport: str, *more: str, sections: Mapping[str, object] | None = None
) -> Report:
    suite = unpacked(directory / "suite")
    agent = {"id": "tck", "type": "a2a_tck", "model": {"model_provider": "demo"}}
    receiver = {"allowed_private_hosts": ["localhost"]}  # the suite's, of push notifications
    configuration = write_configuration(directory, [agent], server=receiver, sections=sections)
    program, path = [str(HERE / "serve.py")], {"PYTHONPATH": str(HERE.parent.parent)}
    async with serving_process(directory, "--config", str(configuration), program=program, env=path) as gateway:
        return await run_suite(suite, gateway.client.base_url, transport, *more)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    if not PYTHON.exists():
        missing_part("what the A2A TCK needs is not installed here; 'make conformance' installs it")
    return asyncio.run(reports_of(tmp_path_factory.mktemp("tck")))


def with_word(report: Report, word: str) -> dict[str, str]:
    return {name: outcome.said for name, outcome in report.items() if outcome.word == word}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_suite_passes_but_for_what_is_its_own(reports: dict[str, Report], transport: str) -> None:
    report = reports[transport]
    failed = with_word(report, "failed")
    assert failed.keys() == OWN_FAILURES.keys(), {name: failed[name] for name in failed.keys() - OWN_FAILURES.keys()}
    assert len(with_word(report, "passed")) > FAR_FEWER_THAN_THERE_ARE


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_skipped_that_is_for_this_agent(reports: dict[str, Report], transport: str) -> None:
    skipped = with_word(reports[transport], "skipped")
    assert {name: why for name, why in skipped.items() if not RIGHT_SKIPS.search(why)} == {}


def test_a_card_of_1_0_alone_keeps_to_the_suites_schema(reports: dict[str, Report]) -> None:
    assert with_word(reports["strict"], "failed").keys() == {LAST_MODIFIED}
    assert reports["strict"][STRICT_CARD].word == "passed"
