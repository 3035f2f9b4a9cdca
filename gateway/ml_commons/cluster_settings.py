"""The settings that hold now, and those that callers set: kept in the store, and here in memory.

Below: feature_settings; the protocols' environment. Above: the protocols, which ask whether a feature is on. A
transient setting holds until the last gateway of the store ends; then a persistent one, the configuration file, the
default. What one gateway sets holds for the others within two seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from gateway.access.callers import Caller
from gateway.documents.document import Document, DocumentKind
from gateway.errors import ConflictError
from gateway.ml_commons.feature_settings import (
    DEFAULTS,
    MAX_JSON_SIZE,
    PRIVATE_ADDRESSES,
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
_TRANSIENT: Final = "transient"
"""The member of the document that has the transient settings; the others are persistent ones."""
_CHANGED_MEANWHILE: Final = frozenset({"id_taken", "version_conflict"})


class ClusterSettings:
    """One for all protocols: `environment.shared(ClusterSettings)`. It is opened before the first request."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._documents = environment.own_documents()
        configured = environment.sections.get(SECTION, {})
        self._configured = {name: read_setting(name, value) for name, value in configured.items()}
        self._set: dict[Lifetime, dict[str, SettingValue]] = {"persistent": {}, "transient": {}}
        self._changing = asyncio.Lock()
        self._version = 0  # of the document that was read last
        self._values = self._current()

    async def open(self) -> None:
        """Read the stored settings, and from now on what other gateways set. Raises StoreError."""
        await self._read()
        gateways = self._environment.gateways
        if gateways.is_first and (left := self._set["transient"]):  # those of gateways that have ended
            await self._keep({}, dict.fromkeys(left))
        gateways.events.on_beat.append(self._read)

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
        await self._keep(persistent, transient)
        names = sorted({*persistent, *transient})
        logger.info("settings were changed", extra={"owner": caller.owner, "settings": names})

    async def _read(self) -> None:
        async with self._changing:
            self._take(await self._documents.get(_SETTINGS, _ID))

    def _take(self, stored: Document | None) -> None:
        """Use the settings as they are stored."""
        if stored is None or stored.version == self._version:
            return
        self._version = stored.version
        self._set = {"persistent": _known(stored.body), "transient": _known(stored.body.get(_TRANSIENT))}
        self._apply()

    async def _keep(self, persistent: Changes, transient: Changes) -> None:
        async with self._changing:
            while True:
                stored = await self._documents.get(_SETTINGS, _ID)
                self._take(stored)
                body: Any = _changed(self._set["persistent"], persistent)
                body[_TRANSIENT] = _changed(self._set["transient"], transient)
                try:
                    await self._documents.put(_SETTINGS, _ID, body, 0 if stored is None else stored.version)
                except ConflictError as error:
                    if error.code not in _CHANGED_MEANWHILE:
                        raise
                    continue  # another gateway was faster
                self._take(await self._documents.get(_SETTINGS, _ID))
                return

    def _apply(self) -> None:
        self._values = self._current()
        trusted = self._set["transient"].get(TRUSTED_ENDPOINTS, self._set["persistent"].get(TRUSTED_ENDPOINTS))
        endpoints = self._environment.endpoints
        endpoints.trust(cast("list[str] | None", trusted))
        endpoints.open_private(bool(self._values[PRIVATE_ADDRESSES]))

    def _current(self) -> dict[str, SettingValue]:
        return {**self._usual(), **self._set["persistent"], **self._set["transient"]}

    def _usual(self) -> dict[str, SettingValue]:
        endpoints = self._environment.endpoints
        of_callers: dict[str, SettingValue] = {
            TRUSTED_ENDPOINTS: list(endpoints.configured),
            PRIVATE_ADDRESSES: endpoints.configured_private,
        }
        return {**DEFAULTS, **of_callers, **self._configured}


def _changed(before: Mapping[str, SettingValue], changes: Changes) -> dict[str, SettingValue]:
    after = {**before, **changes}
    return {name: value for name, value in after.items() if value is not None}


def _known(stored: object) -> dict[str, SettingValue]:
    """The settings in a member of the document; an earlier or later version of the gateway may have kept others."""
    given: Any = stored or {}
    return {name: read_setting(name, value) for name, value in given.items() if name in DEFAULTS}
