"""The settings that hold now, and those that callers set: kept in the store, and here in memory.

Below: feature_settings; the protocols' environment. Above: the protocols, which ask whether a feature is on. A
transient setting holds until the gateway ends; then a persistent one, the configuration file, the default.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

from gateway.access.callers import Caller
from gateway.documents.document import DocumentKind
from gateway.messages import JsonObject
from gateway.ml_commons.feature_settings import (
    DEFAULTS,
    MAX_JSON_SIZE,
    TRUSTED_ENDPOINTS,
    Feature,
    SettingValue,
    feature_off,
    read_setting,
)
from gateway.protocol import ProtocolEnvironment

logger = logging.getLogger(__name__)

Lifetime: TypeAlias = Literal["persistent", "transient"]
Changes: TypeAlias = "Mapping[str, SettingValue | None]"
"""New values by the names of settings, without their prefix; None: it is removed."""

SECTION: Final = "ml_commons"
"""The section of the configuration file."""

_SETTINGS: Final = DocumentKind("cluster settings", {})
_ID: Final = "ml_commons"


class ClusterSettings:
    """One for all protocols: `environment.shared(ClusterSettings)`. It is opened before the first request."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._documents = environment.own_documents()
        configured = environment.sections.get(SECTION, {})
        self._configured = {name: read_setting(name, value) for name, value in configured.items()}
        self._set: dict[Lifetime, dict[str, SettingValue]] = {"persistent": {}, "transient": {}}
        self._changing = asyncio.Lock()
        self._values = self._current()

    async def open(self) -> None:
        """Read the stored settings. Raises StoreError."""
        stored = await self._documents.get(_SETTINGS, _ID)
        if stored is not None:
            # an earlier or later version of the gateway may have kept settings that this one does not know
            known = {name: value for name, value in stored.body.items() if name in DEFAULTS}
            self._set["persistent"] = {name: read_setting(name, value) for name, value in known.items()}
        self._apply()

    def check(self, feature: Feature, message: str = "") -> None:
        """Refuse a request for a feature that is off, with this `message` in place of the feature's own.

        Raises:
            ForbiddenError: it is off; of `unified_agent_api_enabled` InvalidRequestError (400).
        """
        if not self._values[feature]:
            raise feature_off(feature, message)

    @property
    def most_json_bytes(self) -> int | None:
        """The most bytes of a body by this setting; None: only the server's own limit holds."""
        most = cast(int, self._values[MAX_JSON_SIZE])
        return None if most < 0 else most

    def of(self, lifetime: Lifetime) -> Mapping[str, SettingValue]:
        """The settings of callers, by name without the prefix."""
        return self._set[lifetime]

    def others(self) -> Mapping[str, SettingValue]:
        """The values of all settings that no caller has set: the file's, or the defaults."""
        given = self._set["persistent"].keys() | self._set["transient"].keys()
        return {name: value for name, value in self._usual().items() if name not in given}

    async def change(self, caller: Caller, persistent: Changes, transient: Changes) -> None:
        """Set and remove settings; this holds for requests that come after it.

        Raises:
            ForbiddenError: the caller is no administrator.
            StoreError: not now.
        """
        self._environment.check_administrator(caller)
        async with self._changing:
            kept = _changed(self._set["persistent"], persistent)
            if persistent:
                await self._documents.put(_SETTINGS, _ID, cast(JsonObject, kept))
            self._set = {"persistent": kept, "transient": _changed(self._set["transient"], transient)}
            self._apply()
        names = sorted({*persistent, *transient})
        logger.info("settings were changed", extra={"owner": caller.owner, "settings": names})

    def _apply(self) -> None:
        self._values = self._current()
        trusted = self._set["transient"].get(TRUSTED_ENDPOINTS, self._set["persistent"].get(TRUSTED_ENDPOINTS))
        self._environment.endpoints.trust(cast("list[str] | None", trusted))

    def _current(self) -> dict[str, SettingValue]:
        return {**self._usual(), **self._set["persistent"], **self._set["transient"]}

    def _usual(self) -> dict[str, SettingValue]:
        endpoints = list(self._environment.endpoints.configured)
        return {**DEFAULTS, TRUSTED_ENDPOINTS: endpoints, **self._configured}


def _changed(before: Mapping[str, SettingValue], changes: Changes) -> dict[str, SettingValue]:
    after = {**before, **changes}
    return {name: value for name, value in after.items() if value is not None}
