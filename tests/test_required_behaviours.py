"""The manifest of required behaviours, held against the tests there are, both ways."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
PROOF_FOLDERS = ("conformance", "faults")  # of these every single test stands in the manifest
CASES = [f"ag-ui-case-{number:02d}" for number in range(1, 59)]
REQUIRED = [
    "configuration-file",
    "command-line",
    "empty-gateway",
    "first-hour-messages",
    "packages",
    "secrets",
    "demo-model",
    "problem-details",
    "request-ids",
    "agents-list",
    "capabilities",
    "run-shape",
    "event-log",
    "event-ids",
    "cancel-endpoint",
    "threads-list",
    "threads-change",
    "thread-versions",
    "thread-forks",
    "second-tries",
    "waiting-messages",
    "moving",
    "unkept-ends",
    "held-store",
    "repeated-request",
    "connect",
    "owners",
    "client-instructions",
    "visitor-input",
    "visitor-storage",
    "answers-taken-back",
    "forced-tools",
    "front-ends",
    "stale-history",
    "api-keys",
    "origins",
    "enqueue",
    "ids-of-any-shape",
    "operations",
    "event-order",
    "loop",
    "endless-answers",
    "hybrid",
    "history",
    "history-append",
    "incomplete-answers",
    "ends",
    "approvals",
    "who-approves",
    "reused-run-ids",
    "lost-approvals",
    "durable-events",
    "disconnect",
    "stop-and-go-on",
    "viewers",
    "clients-that-do-not-read",
    "cancel",
    "restart",
    "going-on",
    "shutdown",
    "one-process",
    "full-store",
    "closed-door",
    "tool-exceptions",
    "private-files",
    "documents",
    "documents-sealed",
    "stored-agents",
    "fault-stored-agents",
    "rules-for-callers",
    "endpoint-policy",
    "search-budget",
    "search-cluster-names",
    "search-cluster-identity",
    "search-cluster-plugins",
    "search-nested",
    "special-addresses",
    "log-that-goes",
    "retention",
    "attach",
    "seed-requests",
    "message-ids",
    "snake-case",
    "equals-package",
    "framing",
    "results-by-generation",
    "activities-and-custom",
    "chat-completions",
    "converse",
    "stateful",
    "background",
    "fetch-policy",
    "http-client",
    "failure-words",
    "retries",
    "schema-cost",
    "scripted-model",
    "python-tool",
    "search-tools",
    "mcp",
    "http-tool",
    "store-contract",
    "real-clients",
    "verifier",
    "traces",
    "traces-off",
    "front-end-stories",
    "agent-api-schemas",
    "agent-api-builder",
    "agent-api-requests",
    "agent-api-process",
    "agent-api-stored",
    "agent-api-fuzz",
    "agent-api-frames",
    "agent-api-stock-ui",
    "agent-api-input-cache",
    "items-of-a-request",
    "responses-stream",
    "responses-object",
    "fault-any-provider",
    "fault-random-walk",
    "fault-requests",
    "fault-store",
    "fault-threads",
    "fault-tools",
    "fault-upstream",
    "extension",
    "one-door",
    "agent-types",
    "answers-without-a-protocol",
    "error-forms",
    "open-paths",
    "described-protocols",
    "benchmarks",
    "readme",
    "invariants",
    "short-log",
    "shown-is-run",
    "unchecked-page-tool",
    "origin-not-allowed",
    "layout-shift",
    "foreign-privates",
    "agents-replaced",
    "reload",
    "run-records",
    "short-lived-threads",
    "threads-outside-runs",
    "collected-threads",
    "messages-found-by-id",
    "ml-commons-memories",
    "ml-commons-interactions",
    "ml-commons-messages",
    "ml-commons-memory-search",
    "edits-make-versions",
    "paced-replay",
    "run-options",
    "recognised-histories",
    "named-calls",
    "begun-forks",
    "run-messages",
    "paused-threads-live",
    "requested-options",
    "call-executors",
    "renderers",
    "models-media",
    "outcomes-name-limits",
    "last-iteration",
    "ml-fuzz",
    "a2a-errors",
    "a2a-requests",
    "a2a-streams",
    "a2a-tasks",
    "a2a-cards",
    "openai-api-shared-readers",
    "chat-requests",
    "chat-answers",
    "chat-input-cache",
    "protocols-agree",
    "chat-completions-api",
    "responses-requests",
    "responses-post",
    "responses-chaining",
    "responses-replays",
    "openai-clients",
    "chat-history",
    "chat-failures",
    "openai-front-ends",
    "openai-retries",
    "open-responses",
    "ml-stream",
    "ml-stream-ag-ui",
    "ml-refusals",
    "ml-passwords",
    "ml-settings",
    "ml-features",
    "ml-tools",
    "ml-tasks",
    "ml-agents-registration",
    "ml-containers",
    "ml-container-memories",
    "ml-working-memory",
    "ml-agentic-memory",
    "ml-retention",
    "ml-agents-documents",
    "ml-agents-owners",
    "ml-standard-input",
    "ml-execute",
    "ml-execute-providers",
    "ml-commons-proposals",
    "ml-commons-differences",
    "roles-nobody-knows",
    "openai-models",
    "openai-conversations",
    "openai-conversation-busy",
    "openai-late-approval",
    "default-agent",
    "allowed-models",
    "runs-by-origin",
    "adapters",
    "embedding",
    "a2a-methods",
    "a2a-detached",
    "a2a-shown-cards",
    "a2a-malformed-input",
    "a2a-page",
    "a2a-push-delivery",
    "a2a-push-configs",
    "a2a-push-restart",
    "a2a-tck",
    "a2a-sdk",
    "a2a-sdk-0-3",
    "responses-stored",
    "responses-background",
    "openai-errors",
    "openai-fuzz",
    "openai-no-retry",
    "openai-page",
    "protocol-settings",
]


class Behaviour(NamedTuple):
    """One entry of the manifest. `tests` are `file::name`, or a file, below this folder."""

    id: str
    must: str
    source: str
    tests: tuple[str, ...]


def read_manifest() -> list[Behaviour]:
    entries = tomllib.loads((TESTS / "required_behaviours.toml").read_text("utf-8"))["behaviour"]
    return [Behaviour(entry["id"], entry["must"], entry["source"], tuple(entry["tests"])) for entry in entries]


def names_in(path: Path) -> Iterator[str]:
    """The names of a file's tests, those of classes as `Class::name`, read from its source: nothing is imported."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test_"):
                    yield f"{node.name}::{inner.name}"


@cache  # reading all files takes seconds
def collect_tests() -> dict[str, set[str]]:
    """The tests of each file below this folder."""
    files = [path for path in TESTS.rglob("test_*.py") if not {"node_modules", ".venv"} & {*path.parts}]
    return {path.relative_to(TESTS).as_posix(): set(names_in(path)) for path in files}


MANIFEST = read_manifest()


@pytest.mark.parametrize("behaviour", MANIFEST, ids=lambda behaviour: behaviour.id)
def test_every_test_that_is_listed_exists(behaviour: Behaviour) -> None:
    missing = []
    for listed in behaviour.tests:
        file, separator, name = listed.partition("::")
        exists = name in collect_tests().get(file, ()) if separator else collect_tests().get(file)
        if not exists:
            missing.append(listed)
    assert behaviour.tests, "a behaviour without a proof"
    assert missing == []


def test_every_test_of_conformance_and_of_faults_is_listed() -> None:
    listed = {test for behaviour in MANIFEST for test in behaviour.tests}
    there_are = {
        f"{file}::{name}" for file, names in collect_tests().items() if file.startswith(PROOF_FOLDERS) for name in names
    }
    assert sorted(there_are - listed) == []


def test_the_folders_of_proofs_are_not_empty() -> None:
    for folder in PROOF_FOLDERS:
        assert any(names for file, names in collect_tests().items() if file.startswith(f"{folder}/"))


def test_each_of_the_58_cases_and_each_requirement_is_covered_once() -> None:
    ids = [behaviour.id for behaviour in MANIFEST]
    assert sorted(ids) == sorted(CASES + REQUIRED)
    assert len(ids) == len(set(ids)), "one name for two behaviours"


def test_each_case_is_proven_over_real_sockets() -> None:
    by_id = {behaviour.id: behaviour for behaviour in MANIFEST}
    for case in CASES:
        assert any(test.startswith("conformance/") for test in by_id[case].tests), case


def test_each_behaviour_says_what_it_is_and_where_it_comes_from() -> None:
    for behaviour in MANIFEST:
        assert behaviour.must.endswith("."), behaviour.id
        assert behaviour.source.startswith(("https://", "issue ")), behaviour.id


def test_a_case_that_names_its_number_is_listed_under_it() -> None:
    by_id = {behaviour.id: set(behaviour.tests) for behaviour in MANIFEST}
    for file, names in collect_tests().items():
        for name in names:
            if name.startswith("test_case_"):
                assert f"{file}::{name}" in by_id[f"ag-ui-case-{name[10:12]}"]
