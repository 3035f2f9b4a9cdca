"""A whole gateway's keys for documents, and its log."""

from __future__ import annotations

import base64
from pathlib import Path

from gateway.documents.document import DocumentKind
from tests.running_gateway import agent, local_gateway, scripted

NOTE = DocumentKind("note", {}, sealed=("/secret",))
KEY = base64.b64encode(bytes(range(32))).decode()


async def test_a_gateways_log_leaves_out_what_its_documents_have_sealed(tmp_path: Path) -> None:
    agents = [agent("helper", scripted([{"text": "hello"}]))]
    for server in ({}, {"master_keys": [KEY]}, {"master_keys": [KEY]}):
        async with local_gateway(tmp_path, agents, server=server) as local:
            redaction, documents = local.application.redaction, local.application.store.documents
            assert redaction.text("it says the-word-of-today") == "it says the-word-of-today"
            known = await documents.get(NOTE, "n1", "anna", unsealed=True)
            if known is None:
                await documents.put(NOTE, "n1", "anna", {"secret": "the-word-of-today"})
            else:
                assert known.body == {"secret": "the-word-of-today"}
            assert redaction.text("it says the-word-of-today") == "it says ***"
            assert redaction.text(f"with {KEY}") == ("with ***" if server else f"with {KEY}")
