"""How a caller is shown runs as responses, whichever protocol they came by.

Below: responses_renderer, reasoning_envelopes, protocol. Above: thread_items, responses_stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.access.callers import Caller
from gateway.openai_api.reasoning_envelopes import EnvelopeKey
from gateway.openai_api.responses_output import Seal
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import CHAT_ORIGIN, ORIGIN, Approvals, form_of
from gateway.openai_api.settings import ResponsesSettings
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.earlier_calls import EarlierCall
from gateway.store import RunRecord


@dataclass(frozen=True, slots=True)
class ResponseView:
    """`settings` hold for runs of other protocols; a response is shown as it was. `encrypted`: with sealed reasoning,
    whatever the response's request said. `seal` is None where nothing is sealed.
    """

    settings: ResponsesSettings
    seal: Seal | None
    to_operator: bool
    encrypted: bool = False

    def renderer(
        self,
        record: RunRecord,
        earlier: Sequence[EarlierCall] = (),
        ended_at: Callable[[], float | None] | None = None,
    ) -> ResponsesRenderer:
        """The renderer of a run. `earlier` are calls of earlier runs, where the run's own record names none. `ended_at`
        tells when the run has ended; without it the record does.
        """
        form = form_of(record)
        if record.origin != ORIGIN:
            approvals: Approvals = "message" if self.settings.approvals == "message" else "mcp_approval_request"
            form = replace(form, backend_tools=self.settings.backend_tools, approvals=approvals)
        form = replace(form, encrypted=form.encrypted or self.encrypted, earlier=form.earlier or tuple(earlier))
        return ResponsesRenderer(
            form,
            to_operator=self.to_operator,
            seal=self.seal,
            shows_failure=True,
            ended_at=ended_at or (lambda: record.finished_at),
            calls_as_written=record.origin in (ORIGIN, CHAT_ORIGIN),
        )


async def view_of(
    environment: ProtocolEnvironment, caller: Caller, runs: Iterable[RunRecord], *, encrypted: bool = False
) -> ResponseView:
    """The form in which this caller sees these runs.

    Raises:
        StoreError, UnavailableError: reasoning is to be sealed, and the key cannot be read.
    """
    seal = None
    if encrypted or any(form_of(run).seals for run in runs):
        seal = partial((await environment.shared(EnvelopeKey).envelopes()).seal, caller.owner)
    settings = environment.protocol_settings(caller, ResponsesSettings)
    return ResponseView(settings, seal, environment.is_operators(caller), encrypted=encrypted)
