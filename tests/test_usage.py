"""Usage added up over model calls."""

from __future__ import annotations

from gateway.events import ModelCallEnded, ModelCallStarted, StopReason, Usage, UsageReported
from gateway.usage import UsageLedger, total_usage


def test_there_is_one_entry_per_provider_and_model_in_the_order_of_the_first_calls() -> None:
    usages = [Usage("b", "x", 1, 2), Usage("a", "x", 3, 4), Usage("b", "x", 5, 6), Usage("b", "y", 7)]
    assert total_usage(usages) == (Usage("b", "x", 6, 8), Usage("a", "x", 3, 4), Usage("b", "y", 7))


def test_what_nobody_reported_is_not_zero() -> None:
    (total,) = total_usage([Usage("a", "x", 1, None, None, 0), Usage("a", "x", 2, 5, None, None)])
    assert total == Usage("a", "x", 3, 5, None, 0, None)


def test_no_usage_is_none_at_all() -> None:
    assert total_usage([]) == ()
    assert UsageLedger().total_tokens == 0


def test_of_several_reports_of_one_call_the_last_counts() -> None:
    ledger = UsageLedger()
    ledger.follow([ModelCallStarted("t1", "a", "x"), UsageReported(Usage("a", "x", 5, 1))])
    ledger.follow([UsageReported(Usage("a", "x", 5, 9)), ModelCallEnded(StopReason.END_TURN)])
    ledger.follow([ModelCallStarted("t2", "a", "x"), UsageReported(Usage("a", "x", 1, 1))])
    assert ledger.total == (Usage("a", "x", 6, 10),)
    assert ledger.total_tokens == 16


def test_each_call_that_reported_something_has_its_number() -> None:
    ledger = UsageLedger()
    ledger.follow([ModelCallStarted("t1", "a", "x"), ModelCallEnded(StopReason.TOOL_CALLS)])
    ledger.follow([ModelCallStarted("t2", "a", "x"), UsageReported(Usage("a", "x", 5, 9))])
    assert ledger.by_turn == [(2, Usage("a", "x", 5, 9))]
    ledger.follow([ModelCallEnded(StopReason.END_TURN), ModelCallStarted("t3", "a", "x")])
    ledger.follow([UsageReported(Usage("a", "x", 1, 1)), ModelCallEnded(StopReason.END_TURN)])
    assert ledger.by_turn == [(2, Usage("a", "x", 5, 9)), (3, Usage("a", "x", 1, 1))]
