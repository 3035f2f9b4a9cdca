"""What the examination of an OpenSearch cluster finds, in clusters that are as they should be and in others."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.agent import Secret
from gateway.clock import SystemClock
from gateway.messages import JsonObject
from gateway.opensearch import doctor, reach
from gateway.opensearch.address import Address, parse_address
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.document_records import INDEX
from gateway.opensearch.indices import DOCUMENTS, MAPPINGS, SETTINGS, make_indices, mapping_of
from gateway.store import Finding, Level, StoreEnvironment
from tests.local_certificate import tls_contexts, write_certificate
from tests.local_listener import listening, port_of
from tests.opensearch_answers import FORBIDDEN, PREFIX, Answers, answering_cluster, index_settings, root

DEADLINE_SECONDS = 30.0
MASTER_KEY = Secret("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
INDICES = [f"{PREFIX}-{name}" for name in dict.fromkeys([*MAPPINGS, DOCUMENTS])]


async def findings_of(address: Address, master_keys: tuple[Secret, ...] = (MASTER_KEY,)) -> list[Finding]:
    environment = StoreEnvironment(SystemClock(), Path(), master_keys)
    async with asyncio.timeout(DEADLINE_SECONDS):
        findings = [finding async for finding in doctor.examine(address, environment)]
    for finding in findings:
        assert bool(finding.remedy) == (finding.level is not Level.OK), finding
        assert "\n" not in finding.text + finding.remedy
    return findings


async def found(changed: Answers | None = None, **more: Any) -> list[Finding]:
    async with answering_cluster(changed) as cluster:
        return await findings_of(address_of(cluster.port), **more)


def address_of(port: int, more: str = "", host: str = "127.0.0.1", user: str = "g:secret-word@") -> Address:
    return parse_address(f"opensearch://{user}{host}:{port}?prefix={PREFIX}{more}", Path())


def not_ok(findings: Sequence[Finding]) -> list[tuple[str, Level]]:
    return [(finding.subject, finding.level) for finding in findings if finding.level is not Level.OK]


def the(findings: Sequence[Finding], subject: str) -> Finding:
    [one] = [finding for finding in findings if finding.subject == subject]
    return one


def settings_of(**changed: str) -> Answers:
    """All indices are there, and the threads' is different."""
    settings = {index: index_settings() for index in INDICES}
    return {"GET /p-*/_settings": (200, {**settings, "p-threads": index_settings(**changed)})}


async def test_a_cluster_that_no_gateway_has_used_is_well() -> None:
    findings = await found()

    assert not_ok(findings) == []
    assert the(findings, "version").text == "OpenSearch 3.6.0"
    assert "the first start makes them" in the(findings, "indices").text
    assert "secret-word" not in str(findings)


async def test_what_is_asked_changes_nothing() -> None:
    async with answering_cluster() as cluster:
        await findings_of(address_of(cluster.port))

    assert {request for request in cluster.asked if not request.startswith("GET ")} == {
        "POST /p-doctor-none/_search",
        "POST /p-doctor-none/_mget",
        "PUT /p-doctor-none/_doc/none?require_alias=true",
        "DELETE /p-doctor-none/_doc/none",
        "POST /p-doctor-none/_refresh",
        "PUT /p-doctor-none/_mapping",
        "PUT /p-doctor-none",
        "POST /_bulk",
    }


async def test_without_master_keys_it_is_said_what_is_refused() -> None:
    assert not_ok(await found(master_keys=())) == [("keys", Level.WARNING)]


# --- reach


async def test_a_name_without_an_address_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown, raising=False)
    findings = await findings_of(address_of(9200, host="nowhere.example"))

    assert not_ok(findings) == [("connection", Level.PROBLEM)]
    assert "the name 'nowhere.example' has no address" in the(findings, "connection").text


async def test_a_port_where_nothing_listens_is_a_problem() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        findings = await findings_of(address_of(bound.getsockname()[1]))

    assert "nothing listens" in the(findings, "connection").text


async def test_a_cluster_that_does_not_answer_is_a_problem_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_REACH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        findings = await findings_of(address_of(full.getsockname()[1]))
        for each in waiting:
            each.close()

    assert "does not answer within 0.2 seconds" in the(findings, "connection").text


async def test_a_cluster_that_is_silent_when_it_should_speak_tls_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(reach, "_REACH_SECONDS", 0.2)
    async with listening(silent) as listener:
        findings = await findings_of(address_of(port_of(listener), "&tls=true"))

    assert "does not speak TLS (no answer)" in the(findings, "connection").text


@pytest.mark.thorough
async def test_a_cluster_that_stops_answering_is_a_problem_soon() -> None:
    began = time.monotonic()
    async with answering_cluster(without=["GET /_nodes/plugins"]) as cluster:
        findings = await findings_of(address_of(cluster.port))

    assert not_ok(findings) == [("cluster", Level.PROBLEM)]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("name", "ca", "said", "remedy"),
    [
        ("localhost", False, "is not trusted: self-signed certificate", "add ca=FILE"),
        ("other.example", True, "is not trusted: Hostname mismatch", "name the host as its certificate does"),
        ("localhost", True, "https://localhost:", ""),
    ],
)
async def test_a_certificate_is_trusted_or_it_is_said_why_not(
    tmp_path: Path, name: str, ca: bool, said: str, remedy: str
) -> None:
    certificate = write_certificate(tmp_path / "c.pem", name)
    more = f"&tls=true&ca={certificate}" if ca else "&tls=true"
    async with answering_cluster(tls=tls_contexts(certificate)[0]) as cluster:
        findings = await findings_of(address_of(cluster.port, more, host="localhost"))

    assert said in the(findings, "connection").text
    assert the(findings, "connection").remedy.startswith(remedy)
    assert bool(remedy) == bool(not_ok(findings))


async def test_a_file_without_certificates_is_a_problem(tmp_path: Path) -> None:
    findings = await findings_of(address_of(9200, f"&tls=true&ca={tmp_path / 'none.pem'}"))

    assert "has no certificates (no such file or directory)" in the(findings, "connection").text


async def test_tls_to_a_cluster_without_it_is_a_problem() -> None:
    async with answering_cluster() as cluster:
        findings = await findings_of(address_of(cluster.port, "&tls=true"))

    assert "does not speak TLS" in the(findings, "connection").text


@pytest.mark.thorough
async def test_no_tls_to_a_cluster_with_it_is_a_problem(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "c.pem", "localhost")
    async with answering_cluster(tls=tls_contexts(certificate)[0]) as cluster:
        findings = await findings_of(address_of(cluster.port))

    assert "speaks TLS only" in the(findings, "user").text


async def test_any_other_failure_of_a_connection_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(asyncio, "open_connection", unreachable)
    findings = await findings_of(address_of(9200))

    assert "cannot be reached (network is unreachable)" in the(findings, "connection").text


async def test_a_password_in_plain_text_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_LOCAL", frozenset[str]())

    assert not_ok(await found()) == [("connection", Level.WARNING)]


# --- user, version, rights


async def test_a_wrong_password_is_a_problem_and_is_not_shown() -> None:
    findings = await found({"GET /": (401, {})})

    assert not_ok(findings) == [("user", Level.PROBLEM)]
    assert the(findings, "user").text == "the cluster does not know the user 'g', or the password"
    assert "secret-word" not in str(findings)


async def test_a_missing_password_is_a_problem() -> None:
    async with answering_cluster({"GET /": (401, {})}) as cluster:
        findings = await findings_of(address_of(cluster.port, user=""))

    assert the(findings, "user").text == "the cluster wants a user and a password"


async def test_a_user_who_may_nothing_is_a_problem() -> None:
    assert the(await found({"GET /": (403, FORBIDDEN)}), "user").text == "the cluster refuses the user 'g'"


async def test_requests_that_cannot_be_signed_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    certificate = write_certificate(tmp_path / "c.pem", "localhost")
    async with answering_cluster(tls=tls_contexts(certificate)[0]) as cluster:
        more = f"&aws_region=eu-test-1&ca={certificate}"
        findings = await findings_of(address_of(cluster.port, more, host="localhost", user=""))

    assert "no AWS credentials" in the(findings, "user").text


@pytest.mark.parametrize(
    ("answer", "level", "said"),
    [
        ((200, root("2.11.0")), Level.OK, "OpenSearch 2.11.0"),
        ((200, root("2.9.0")), Level.PROBLEM, "is OpenSearch 2.9.0"),
        ((200, root("4.0.0")), Level.WARNING, "OpenSearch 4.0.0"),
        ((200, root("8.13.4", None)), Level.PROBLEM, "is Elasticsearch 8.13.4"),
        ((404, {}), Level.PROBLEM, "OpenSearch Serverless cannot"),
        ((200, {"hello": "world"}), Level.PROBLEM, "no OpenSearch cluster"),
    ],
)
async def test_a_version_is_known_or_refused_by_name(answer: tuple[int, Any], level: Level, said: str) -> None:
    finding = the(await found({"GET /": answer}), "version")

    assert (finding.level, said in finding.text + finding.remedy) == (level, True)


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        ("GET /p-doctor-none/_doc/none", "read documents"),
        ("POST /p-doctor-none/_search", "search"),
        ("PUT /p-doctor-none/_doc/none", "write documents"),
        ("DELETE /p-doctor-none/_doc/none", "delete documents"),
        ("POST /p-doctor-none/_refresh", "refresh indices"),
        ("GET /p-doctor-none/_stats", "read statistics of indices"),
        ("GET /p-doctor-none/_settings", "read settings of indices"),
        ("GET /p-doctor-none/_mapping", "read mappings"),
        ("PUT /p-doctor-none/_mapping", "change mappings"),
        ("PUT /p-doctor-none", "make indices"),
        ("POST /_bulk", "write many documents at once"),
    ],
)
async def test_each_right_that_is_missing_is_named(request_: str, right: str) -> None:
    findings = await found({request_: (403, FORBIDDEN)})

    assert not_ok(findings) == [("rights", Level.PROBLEM)]
    assert the(findings, "rights").text == f"the user may not, on 'p-*': {right}"
    assert "cluster_composite_ops" in the(findings, "rights").remedy


async def test_a_right_that_is_refused_within_a_bulk_is_named() -> None:
    refused = {"errors": True, "items": [{"index": {"status": 403, **FORBIDDEN}}]}

    assert not_ok(await found({"POST /_bulk": (200, refused)})) == [("rights", Level.PROBLEM)]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, "cluster_block_exception"), (429, "cluster_block_exception"), (403, "index_create_block_exception")],
)
async def test_a_closed_cluster_is_no_missing_right(status: int, kind: str) -> None:
    error = {"type": kind, "reason": "blocked by: [FORBIDDEN/12/cluster read-only]"}
    findings = await found(
        {
            "PUT /p-doctor-none": (status, {"error": error}),
            "GET /_cluster/settings": (200, {"persistent": {"cluster.blocks.read_only": "true"}}),
        }
    )

    assert not_ok(findings) == [("blocks", Level.PROBLEM)]


async def test_pages_that_the_user_may_not_read_are_named_and_no_problem() -> None:
    pages = {"GET /_nodes/plugins": "plugins", "GET /_nodes/stats/fs": "nodes", "GET /_template": "older index"}
    findings = await found(dict.fromkeys(pages, (403, FORBIDDEN)))

    assert not_ok(findings) == []
    assert all(name in the(findings, "not read").text for name in pages.values())


# --- indices


async def test_indices_as_the_store_makes_them_are_well() -> None:
    mappings = {f"p-{name}": {"mappings": mapping_of(fields)} for name, fields in MAPPINGS.items()}
    findings = await found({**settings_of(), "GET /p-*/_mapping": (200, mappings)})

    assert not_ok(findings) == []
    assert the(findings, "indices").text.startswith("all that the store has")


async def test_indices_that_are_missing_are_named() -> None:
    findings = await found({"GET /p-*/_settings": (200, {index: index_settings() for index in INDICES[1:]})})

    assert not_ok(findings) == []
    assert the(findings, "indices").text.endswith("p-threads")


@pytest.mark.parametrize(
    ("changed", "level", "said"),
    [
        ({"translog__durability": "async"}, Level.PROBLEM, '{"index.translog.durability": "request"}'),
        ({"refresh_interval": "-1"}, Level.WARNING, '{"index.refresh_interval": "1s"}'),
        ({"number_of_shards": "3"}, Level.PROBLEM, "import it under another prefix"),
    ],
)
async def test_a_wrong_setting_of_an_index_is_told(changed: dict[str, str], level: Level, said: str) -> None:
    findings = await found(settings_of(**changed))

    assert not_ok(findings) == [("indices", level)]
    assert "'p-threads'" in the(findings, "indices").text
    assert said in the(findings, "indices").remedy


async def test_a_wrong_mapping_is_a_problem() -> None:
    wrong = {"p-threads": {"mappings": {"properties": {"owner": {"type": "text"}, "more": {"type": "text"}}}}}
    findings = await found({**settings_of(), "GET /p-*/_mapping": (200, wrong)})

    assert not_ok(findings) == [("indices", Level.PROBLEM)]
    assert the(findings, "indices").text.endswith("owner is text, not keyword")


async def test_a_wrong_mapping_of_documents_is_a_problem() -> None:
    wrong = {"p-documents": {"mappings": {"properties": {"owner": {"type": "text"}}}}}
    findings = await found({**settings_of(), "GET /p-*/_mapping": (200, wrong)})

    assert the(findings, "indices").text.endswith("owner is text, not keyword")


@pytest.mark.parametrize(
    ("patterns", "template", "tells"),
    [
        (["p-*"], {"mappings": {"properties": {"owner": {"type": "text"}}}}, True),
        (["*"], {"settings": {"index": {"default_pipeline": "theirs"}}}, True),
        (["*"], {"settings": {"index.final_pipeline": "theirs"}}, True),
        (["*"], {"settings": {"index": {"number_of_replicas": 2}}}, False),
        (["other-*"], {"mappings": {"properties": {"owner": {"type": "text"}}}}, False),
    ],
)
async def test_a_template_of_others_that_changes_new_indices_is_a_warning(
    patterns: list[str], template: dict[str, Any], tells: bool
) -> None:
    newer = [{"name": "theirs", "index_template": {"index_patterns": patterns, "template": template}}]
    older = {"theirs": {"index_patterns": patterns, **template}}
    expected = [("templates", Level.WARNING)] if tells else []

    assert not_ok(await found({"GET /_index_template": (200, {"index_templates": newer})})) == expected
    assert not_ok(await found({"GET /_template": (200, older)})) == expected
    assert not_ok(await found({"GET /_template": (200, older), **settings_of()})) == []


# --- the cluster


async def test_a_cluster_without_the_security_plugin_is_a_warning() -> None:
    plugins = {"nodes": {"a": {"plugins": [{"name": "opensearch-knn"}]}}}
    findings = await found({"GET /_nodes/plugins": (200, plugins)})

    assert not_ok(findings) == [("security", Level.WARNING)]
    assert the(findings, "plugins").text.endswith("there would be: opensearch-knn")


@pytest.mark.parametrize(("status", "level"), [("red", Level.PROBLEM), ("yellow", Level.WARNING)])
async def test_health_that_is_not_green_is_told(status: str, level: Level) -> None:
    assert not_ok(await found({"GET /_cluster/health/p-*": (200, {"status": status})})) == [("health", level)]


@pytest.mark.parametrize(
    "changed",
    [
        settings_of(blocks__read_only_allow_delete="true"),
        settings_of(blocks__write="true"),
        {"GET /_cluster/settings": (200, {"persistent": {"cluster.blocks.read_only": "true"}})},
        {"GET /_cluster/settings": (200, {"transient": {"cluster.blocks.create_index": "true"}})},
    ],
)
async def test_what_takes_no_writes_is_a_problem(changed: Answers) -> None:
    assert not_ok(await found(changed)) == [("blocks", Level.PROBLEM)]


@pytest.mark.parametrize("name", ["read_only_allow_delete", "write"])
async def test_a_block_is_lifted_as_it_came(name: str) -> None:
    remedy = the(await found(settings_of(**{f"blocks__{name}": "true"})), "blocks").remedy

    assert ("free disk space" in remedy) == (name == "read_only_allow_delete")
    assert (f'"index.blocks.{name}": null' in remedy) == (name != "read_only_allow_delete")


async def test_a_cluster_without_room_for_shards_is_a_problem_while_indices_are_missing() -> None:
    full = {
        "GET /_cluster/health": (200, {"status": "green", "number_of_data_nodes": 1, "active_shards": 995}),
        "GET /_cluster/settings": (200, {"persistent": {"cluster.max_shards_per_node": "1000"}}),
    }
    findings = await found(full)

    assert not_ok(findings) == [("shards", Level.PROBLEM)]
    assert f"takes 5 more shards, and the store's indices need {2 * len(INDICES)}" in the(findings, "shards").text
    assert not_ok(await found({**full, **settings_of()})) == []


async def test_a_disk_that_is_nearly_full_is_a_warning() -> None:
    disk = {"total": {"total_in_bytes": 1000, "available_in_bytes": 90}}
    nodes = {"nodes": {"a": {"name": "node-1", "timestamp": int(time.time() * 1000), "fs": disk}}}

    assert not_ok(await found({"GET /_nodes/stats/fs": (200, nodes)})) == [("disk", Level.WARNING)]


@pytest.mark.parametrize("seconds", [-60, 60])
async def test_a_clock_that_differs_is_a_warning(seconds: int) -> None:
    nodes = {"nodes": {"a": {"name": "node-1", "timestamp": int((time.time() + seconds) * 1000)}}}
    findings = await found({"GET /_nodes/stats/fs": (200, nodes)})

    assert not_ok(findings) == [("clock", Level.WARNING)]
    assert "node-1 by " in the(findings, "clock").text


# --- a real node


@pytest.fixture
def node(opensearch_url: str) -> str:
    return opensearch_url.replace("http://", "opensearch://", 1)


async def names_in(address: Address) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=address.shown) as client:
        found: dict[str, Any] = (await client.get(f"/{address.prefix}-*/_settings?expand_wildcards=all")).json()
        return found


async def test_a_real_node_is_examined_and_stays_as_it_is(node: str) -> None:
    address = parse_address(f"{node}?prefix=t{uuid.uuid4().hex}", Path())
    findings = await findings_of(address)

    assert [subject for subject, level in not_ok(findings) if level is Level.PROBLEM] == []
    assert "the first start makes them" in the(findings, "indices").text
    assert await names_in(address) == {}


async def test_tls_to_a_real_node_without_it_is_a_problem(node: str) -> None:
    findings = await findings_of(parse_address(f"{node}?tls=true", Path()))

    assert not_ok(findings) == [("connection", Level.PROBLEM)]
    assert "does not speak TLS" in the(findings, "connection").text


async def test_the_indices_of_a_real_node_are_judged(node: str) -> None:
    address = parse_address(f"{node}?prefix=t{uuid.uuid4().hex}", Path())
    cluster = Cluster(address)
    try:
        await make_indices(cluster)
        documents: JsonObject = {"settings": {"index": dict(SETTINGS)}, "mappings": INDEX["mappings"]}
        await cluster.request("PUT", f"/{cluster.index(DOCUMENTS)}", documents, seconds=DEADLINE_SECONDS)
        findings = await findings_of(address)
        assert [each for each in not_ok(findings) if each[1] is Level.PROBLEM] == []
        assert the(findings, "indices").text.startswith("all that the store has")
        before = await names_in(address)

        threads = cluster.index("threads")
        wrong: JsonObject = {"index": {"translog.durability": "async", "blocks.write": True}}
        await cluster.request("PUT", f"/{threads}/_settings", wrong, seconds=DEADLINE_SECONDS)
        findings = await findings_of(address)
        assert [each for each in not_ok(findings) if each[1] is Level.PROBLEM] == [
            ("indices", Level.PROBLEM),
            ("blocks", Level.PROBLEM),
        ]
        assert (await names_in(address)).keys() == before.keys()
    finally:
        for index in await names_in(address):
            await cluster.request("DELETE", f"/{index}", seconds=DEADLINE_SECONDS)
        await cluster.close()
