"""ml-commons' REST API: its tools, and whatever of its paths no other protocol serves.

Below: the protocols' environment; ml_commons.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute

from gateway.ml_commons.routes import PREFIX, opensearch_error_form
from gateway.protocol import ProtocolEnvironment, WireProtocol


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    return []


PROTOCOL = WireProtocol(
    "ml_tools",
    _routes,
    paths=[PREFIX, PREFIX + "/{rest:path}"],
    error_form=opensearch_error_form,
    basic_paths=[PREFIX, PREFIX + "/"],
)
