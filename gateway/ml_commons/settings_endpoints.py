"""OpenSearch's `_cluster/settings`, for the settings `plugins.ml_commons.*` alone.

Below: the protocols' environment; ml_commons. Only administrators' keys reach it, or whoever uses a gateway without
keys that only this machine reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.messages import JsonObject
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.routes import (
    ROOT,
    SETTINGS,
    is_asked,
    ml_response,
    ml_routes,
    opensearch_error_form,
    read_object,
)
from gateway.ml_commons.settings_bodies import read_changes, written
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of

_PATH: Final = "/_cluster/settings"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._settings = environment.shared(ClusterSettings)

    async def settings(self, request: Request) -> Response:
        self._environment.check_administrator(caller_of(request))
        settings, flat = self._settings, is_asked(request, "flat_settings")
        answer: JsonObject = {
            "persistent": written(settings.of("persistent"), flat=flat),
            "transient": written(settings.of("transient"), flat=flat),
        }
        if is_asked(request, "include_defaults"):
            answer["defaults"] = written(settings.others(), flat=flat)
        return ml_response(request, answer)

    async def change(self, request: Request) -> Response:
        caller = caller_of(request)
        self._environment.check_administrator(caller)  # before anything of the request is called wrong
        changes = read_changes(await read_object(request))
        await self._settings.change(caller, changes["persistent"], changes["transient"])
        flat = is_asked(request, "flat_settings")
        answer: JsonObject = {"acknowledged": True}
        for lifetime, values in changes.items():
            answer[lifetime] = written({name: value for name, value in values.items() if value is not None}, flat=flat)
        return ml_response(request, answer)


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [Route(_PATH, on.settings, methods=["GET"]), Route(_PATH, on.change, methods=["PUT"])]
    return ml_routes(environment, routes)


async def _open(environment: ProtocolEnvironment) -> None:
    await environment.shared(ClusterSettings).open()


PROTOCOL = WireProtocol(
    "ml_cluster_settings",
    _routes,
    error_form=opensearch_error_form,
    paths=[_PATH + "/"],
    basic_paths=["/", _PATH, _PATH + "/"],
    api=api_data("gateway.ml_commons", "ml_cluster_settings"),
    open=_open,
    settings=SETTINGS,
    root=ROOT,
)
