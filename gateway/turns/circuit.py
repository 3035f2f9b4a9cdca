"""A circuit breaker: a model that keeps failing is skipped for a while if another one can be asked.

Below: agent, errors. Above: attempts, which asks and reports; the composition root, which opens one for each model in a
fallback chain. The state is this process's own: after a restart all circuits are closed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import TypeAlias

from gateway.agent import ModelSettings
from gateway.errors import ModelErrorKind

logger = logging.getLogger(__name__)

MOST_FAILURES = 5
REST_SECONDS = 30.0

_DOWN = frozenset(
    {
        ModelErrorKind.NETWORK,
        ModelErrorKind.OVERLOADED,
        ModelErrorKind.SERVER,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.TRUNCATED,
    }
)

OnChange: TypeAlias = Callable[[str, str, bool], None]
"""Called with the provider, the model, and whether the model's circuit is open from now on."""


class Circuit:
    """The circuit of one model at one address. It opens after MOST_FAILURES failed tries in a row.

    While it is open, one call every REST_SECONDS or so is let through, to test whether the model is back.
    """

    def __init__(
        self,
        provider: str,
        model_id: str,
        *,
        on_change: OnChange | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives numbers from 0 to 1, so that processes do not all test at once."""
        self._provider = provider
        self._model_id = model_id
        self._on_change = on_change
        self._jitter = jitter
        self._failures = 0
        self._rests_until: float | None = None

    @property
    def is_open(self) -> bool:
        return self._rests_until is not None

    def lets_through(self, now: float) -> bool:
        """Whether a call may be made at `now` (monotonic seconds). If the circuit is open, that call is the test: no
        others are let through until it is over, or the next test is due.
        """
        if self._rests_until is None:
            return True
        if now < self._rests_until:
            return False
        self._rest(now)
        return True

    def failed(self, kind: ModelErrorKind, now: float) -> None:
        """Note a try that failed before anything of its response was seen."""
        if kind not in _DOWN:
            if kind is not ModelErrorKind.PROTOCOL:  # a protocol error may come from any host on the way
                self.answered()
            return
        self._failures += 1
        if self._failures < MOST_FAILURES:
            return
        opens = self._rests_until is None
        self._rest(now)
        if opens:
            self._report(logging.WARNING, "a model is down, and is skipped if another can be asked", is_open=True)

    def answered(self) -> None:
        """Note that the model responded."""
        self._failures = 0
        if self._rests_until is not None:
            self._rests_until = None
            self._report(logging.INFO, "a model that was down answers again", is_open=False)

    def _rest(self, now: float) -> None:
        self._rests_until = now + REST_SECONDS * (0.75 + self._jitter() / 2)

    def _report(self, level: int, what: str, *, is_open: bool) -> None:
        extra = {"provider": self._provider, "model": self._model_id, "failures": self._failures}
        logger.log(level, what, extra=extra)
        if self._on_change is not None:
            self._on_change(self._provider, self._model_id, is_open)


class Circuits:
    """The circuits of a process: agents that use the same model at the same address share one."""

    def __init__(self, on_change: OnChange | None = None) -> None:
        self._on_change = on_change
        self._circuits: dict[tuple[str, ...], Circuit] = {}

    def of(self, model: ModelSettings) -> Circuit:
        key = (model.model_provider, model.model_id, model.endpoint or "", model.region or "")
        if key not in self._circuits:
            self._circuits[key] = Circuit(model.model_provider, model.model_id, on_change=self._on_change)
        return self._circuits[key]
