"""A conversation that has grown too long for its model goes on: results are cut, the past is summed up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from gateway.agent import ContextSettings
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, ModelCallEnded, RunFinished, StopReason, Usage, UsageReported
from gateway.history.context_limits import MOST_REMEMBERED, NO_LIMITS, FitCache, HistoryLimits, estimated_tokens
from gateway.messages import Message, TextBlock, ToolCall, ToolResult
from gateway.model import ModelCapabilities, ModelRequest
from gateway.options.generation import NO_OPTIONS, GenerationOptions, JsonFormat
from gateway.providers.answer_builder import AnswerBuilder
from gateway.turns.attempts import stream_with_retries
from gateway.turns.context_reduction import ShortenedHistory
from tests.agent_inputs import agent_input
from tests.invariants import check_history
from tests.loop_runs import LoopRun, user
from tests.model_answers import answer_of
from tests.movable_clock import MovableClock

THREAD = ("owner", "thread")
DEADLINE_SECONDS = 10


class NarrowModel:
    """A model with a context of `tokens`: what is longer it refuses. It answers with `says`, whatever it is asked."""

    provider, model_id, capabilities = "narrow", "narrow", ModelCapabilities()

    def __init__(self, tokens: int, says: str = "They spoke of numbers.", *, stop: str = "end_turn") -> None:
        self.tokens = tokens
        self.asked: list[ModelRequest] = []
        self._says = says
        self._stop = StopReason(stop)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        self.asked.append(request)
        check_history(request.messages)
        size = sum(map(estimated_tokens, request.messages))
        if size > self.tokens:
            raise ModelError(ModelErrorKind.CONTEXT_OVERFLOW, f"{size} are too many")
        response = AnswerBuilder(request, self.provider, self.model_id)
        response.text(0, self._says)
        response.usage(Usage(self.provider, self.model_id, size, 5))
        response.finish(self._stop)
        yield response.take()

    async def close(self) -> None: ...


def question(number: int, words: int = 1) -> Message:
    return Message(f"u{number}", "user", (TextBlock("word " * words + f"question {number}"),))


def answer(number: int, words: int = 1) -> Message:
    return Message(f"a{number}", "assistant", (TextBlock("word " * words),), turn_id=f"t{number}")


def looked_up(number: int, characters: int) -> list[Message]:
    call = Message(f"c{number}", "assistant", (ToolCall(f"call{number}", "look", "{}"),), turn_id=f"t{number}")
    result = ToolResult(f"call{number}", (TextBlock("x" * characters),))
    return [call, Message(f"r{number}", "tool", (result,), turn_id=f"t{number}")]


async def ask(model: NarrowModel, history: ShortenedHistory, messages: Sequence[Message]) -> Events:
    request = ModelRequest("turn", history.shown(tuple(messages)))
    batches = stream_with_retries(model, request, MovableClock(), 3, shorten=history.shorten)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for events in batches for event in events]


def shortened(fits: FitCache, *, summarizes: bool = True, limits: HistoryLimits = NO_LIMITS) -> ShortenedHistory:
    return ShortenedHistory(limits, summarizes, fits, THREAD)


async def test_results_are_cut_before_anything_else() -> None:
    model, fits = NarrowModel(800), FitCache()
    messages = [question(1), *looked_up(1, 8_000), answer(1), question(2)]
    assert answer_of(await ask(model, shortened(fits), messages)).stop is StopReason.END_TURN
    first, second = model.asked
    assert first.messages == tuple(messages)
    assert [message.id for message in second.messages] == [message.id for message in messages]
    assert "characters left out" in str(second.messages[2].tool_result)


async def test_what_was_cut_once_is_cut_at_once_the_next_time() -> None:
    model, fits = NarrowModel(800), FitCache()
    messages = [question(1), *looked_up(1, 8_000), answer(1), question(2)]
    await ask(model, shortened(fits), messages)
    await ask(model, shortened(fits), [*messages, answer(2), question(3)])
    assert len(model.asked) == 3


async def test_a_new_result_that_is_too_long_is_cut_although_older_ones_were_before() -> None:
    model, fits = NarrowModel(900), FitCache()
    messages = [question(1), *looked_up(1, 8_000)]
    await ask(model, shortened(fits, summarizes=False), messages)
    messages = [*messages, answer(1), question(2), *looked_up(2, 8_000)]
    assert answer_of(await ask(model, shortened(fits, summarizes=False), messages)).stop is StopReason.END_TURN
    assert len(model.asked) == 4
    assert "characters left out" in str(model.asked[-1].messages[-1].tool_result)


async def test_a_new_result_that_fits_is_shown_whole_although_others_were_cut_before() -> None:
    model, fits = NarrowModel(900), FitCache()
    await ask(model, shortened(fits), [question(1), *looked_up(1, 8_000)])
    await ask(model, shortened(fits), [question(2), *looked_up(2, 2_000)])
    assert len(model.asked) == 3
    assert "characters left out" not in str(model.asked[-1].messages[-1].tool_result)


async def test_the_last_result_is_cut_too_where_the_past_is_summed_up() -> None:
    model, fits = NarrowModel(900), FitCache()
    messages = [question(1, 300), *looked_up(1, 8_000), answer(1, 300), question(2), *looked_up(2, 8_000)]
    assert answer_of(await ask(model, shortened(fits), messages)).stop is StopReason.END_TURN
    last = model.asked[-1].messages
    assert "They spoke of numbers." in last[0].text
    assert "characters left out" in str(last[-1].tool_result)


async def test_the_past_is_summed_up_by_the_model_and_the_sum_stays_in_use() -> None:
    model, fits = NarrowModel(900), FitCache()
    messages = [question(1, 300), answer(1, 300), question(2, 300), answer(2, 20), question(3)]
    events = await ask(model, shortened(fits), messages)
    asked, summary, again = model.asked
    assert len(asked.messages) == 5
    assert "sum up conversations" in summary.system
    assert "question 1" in summary.messages[0].text
    assert again.messages[0].role == "user"
    assert "They spoke of numbers." in again.messages[0].text
    assert again.messages[-1].text.endswith("question 3")
    # what it cost is told with the answer's own cost
    told = [event.usage for event in events if isinstance(event, UsageReported)]
    assert [usage.output_tokens for usage in told] == [10]
    await ask(model, shortened(fits), [*messages, answer(3), question(4)])
    assert len(model.asked) == 4
    assert "They spoke of numbers." in model.asked[-1].messages[0].text


async def test_a_past_that_was_edited_is_not_stood_for_by_its_old_sum() -> None:
    model, fits = NarrowModel(900), FitCache()
    messages = [question(1, 300), answer(1, 300), question(2, 300), answer(2, 20), question(3)]
    await ask(model, shortened(fits), messages)
    other = (Message("u1", "user", (TextBlock("something else"),)), answer(1), question(5))
    assert shortened(fits).shown(other) == other


async def test_both_are_done_where_one_is_not_enough_and_no_more_than_two() -> None:
    model, fits = NarrowModel(1_000), FitCache()
    messages = [question(1, 600), *looked_up(1, 8_000), answer(1, 100), question(2)]
    await ask(model, shortened(fits), messages)
    assert len(model.asked) == 4  # refused, refused with results cut, the sum, the answer
    hopeless = NarrowModel(20)
    with pytest.raises(ModelError) as caught:
        await ask(hopeless, shortened(FitCache()), messages)
    assert caught.value.code == "model_context_overflow"


async def test_a_single_message_that_is_too_long_is_one_clear_error() -> None:
    model = NarrowModel(50)
    with pytest.raises(ModelError) as caught:
        await ask(model, shortened(FitCache()), [question(1, 500)])
    assert caught.value.kind is ModelErrorKind.CONTEXT_OVERFLOW
    assert len(model.asked) == 1


async def test_nothing_is_summed_up_where_the_operator_does_not_want_it() -> None:
    model = NarrowModel(400)
    with pytest.raises(ModelError):
        await ask(model, shortened(FitCache(), summarizes=False), [question(1, 600), answer(1), question(2)])
    assert len(model.asked) == 1


async def test_a_sum_that_was_cut_off_by_a_filter_is_none() -> None:
    model = NarrowModel(400, stop="content_filter")
    with pytest.raises(ModelError) as caught:
        await ask(model, shortened(FitCache()), [question(1, 600), answer(1), question(2)])
    assert caught.value.kind is ModelErrorKind.CONTEXT_OVERFLOW


async def test_a_sum_without_an_end_is_none() -> None:
    model = NarrowModel(400, "word " * 300_000)
    with pytest.raises(ModelError) as caught:
        await ask(model, shortened(FitCache()), [question(1, 600), answer(1), question(2)])
    assert caught.value.kind is ModelErrorKind.CONTEXT_OVERFLOW
    assert len(model.asked) == 2


async def test_configured_limits_hold_for_every_request() -> None:
    history = shortened(FitCache(), limits=HistoryLimits(max_messages=2))
    messages = (question(1), answer(1), question(2), answer(2), question(3))
    assert [message.id for message in history.shown(messages)] == ["u3"]


async def test_only_so_many_threads_are_remembered() -> None:
    fits = FitCache()
    messages = [question(1), *looked_up(1, 8_000), answer(1), question(2)]
    for number in range(MOST_REMEMBERED + 1):
        history = ShortenedHistory(NO_LIMITS, False, fits, ("owner", str(number)))
        await history.shorten(NarrowModel(1), ModelRequest("turn", history.shown(tuple(messages))))
    assert fits.get(("owner", "0")) is None
    assert fits.get(("owner", str(MOST_REMEMBERED))) is not None


# --- through the loop ------------------------------------------------------------------------------------------------


async def test_the_run_goes_on_and_the_thread_keeps_everything() -> None:
    model = NarrowModel(900)
    messages = [question(1, 300), answer(1, 300), question(2, 300), answer(2, 20), question(3)]
    run = LoopRun(model=model, messages=messages)
    events = await run.events()
    assert isinstance(events[-1], RunFinished)
    assert run.context.messages == tuple(messages)
    assert [type(event) for event in events].count(ModelCallEnded) == 1


async def test_an_agents_limits_reach_its_model() -> None:
    run = LoopRun(responses=[[{"text": "Hi"}]], messages=[user("one", "u1"), answer(1), user("two", "u2")])
    limits = ContextSettings(HistoryLimits(max_messages=1))
    run.context = replace(run.context, agent=replace(run.context.agent, context=limits))
    await run.events()
    assert [message.id for message in run.requests[0].messages] == ["u2"]
    assert run.context.input == agent_input("thread", "run", run.context.messages, state=None)


async def test_a_shortened_question_keeps_the_runs_options_which_are_no_summarys() -> None:
    model, options = NarrowModel(600), GenerationOptions(max_tokens=5, response_format=JsonFormat())
    history = shortened(FitCache())
    messages = (question(1, 400), answer(1, 400), question(2))
    request = ModelRequest("turn", history.shown(messages), options=options)
    batches = stream_with_retries(model, request, MovableClock(), 3, shorten=history.shorten)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert [event async for events in batches for event in events]
    assert [asked.options for asked in model.asked] == [options, NO_OPTIONS, options]
