"""The official client reaches the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest
from opensearchpy.exceptions import TransportError

from tests.ml_commons_scene import ml_gateway


async def test_opensearchs_client_reads_an_error(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        with pytest.raises(TransportError) as caught:
            await ml.opensearch.transport.perform_request("GET", "/_plugins/_ml/agents/nope")
    assert caught.value.status_code == 404
