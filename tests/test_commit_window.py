"""The window in which runs wait for each other's events, and readers for more words."""

from __future__ import annotations

import asyncio

import pytest

from gateway.commit_window import USUAL_WINDOW, CommitWindow, WindowSeconds

DEADLINE_SECONDS = 20


class Run:
    """A run as the window knows it."""

    def __init__(self, window: CommitWindow) -> None:
        self.said: list[str] = []
        self.kept: list[list[str]] = []
        self.handed_over = asyncio.Event()
        self._window = window

    def say(self, words: str) -> None:
        self.said.append(words)
        self._window.add(self)

    def hand_over(self) -> int:
        self.kept.append(self.said)
        self.said = []
        self.handed_over.set()
        return len(self.kept[-1])


async def test_what_comes_right_when_the_window_closes_is_kept_with_what_was_there() -> None:
    window = CommitWindow(0.001)
    run = Run(window)
    run.say("there")
    reads = asyncio.Event()
    window.when_closed(reads.set)

    async def read() -> None:
        await reads.wait()
        await asyncio.sleep(0)  # as the system is asked what came
        run.say("brought")

    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(read(), run.handed_over.wait())
    assert run.kept == [["there", "brought"]]


async def test_a_reader_needs_no_run_for_a_window_to_open_and_may_wait_for_one_after_the_other() -> None:
    window = CommitWindow(0.001)
    async with asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(3):
            reads = asyncio.Event()
            window.when_closed(reads.set)
            await reads.wait()


async def test_a_reader_that_waits_again_at_once_holds_nobody_back() -> None:
    window = CommitWindow(0.001)
    run = Run(window)
    words = iter("abc")

    def read() -> None:
        if word := next(words, ""):
            run.say(word)
            window.when_closed(read)

    window.when_closed(read)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(run.kept) < 3:
            run.handed_over.clear()
            await run.handed_over.wait()
    assert run.kept == [["a"], ["b"], ["c"]]


async def test_without_a_window_nobody_waits() -> None:
    said: list[str] = []
    CommitWindow(0).when_closed(lambda: said.append("read"))
    assert said == ["read"]


# --- how long a window is

BUSY, HALF_BUSY, CALM = 0.95, 0.75, 0.1


class Machine:
    """The clocks that a window asks, and one that has asked them before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: WindowSeconds = USUAL_WINDOW) -> None:
        self.now = 1000.0
        self.worked = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", self.monotonic)
        self.window = CommitWindow(*seconds, monotonic=self.monotonic, thread_time=self.thread_time)
        self.window._hand_over()

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.worked

    def lengths(self, times: int, share_of_work: float, late: float, gap: float) -> list[float]:
        """Milliseconds that the window lasts which follows each of so many of that kind, in which a run says something
        every `gap` milliseconds, or nothing at all (0).
        """
        lengths, run = [], Run(self.window)
        for _ in range(times):
            for _ in range(max(1, int(self.window.seconds * 1000 / gap)) if gap else 0):
                run.say("word")
            self.now += 0.100
            self.worked += share_of_work * 0.100
            self.window._due = self.now - late
            self.window._time_up()
            lengths.append(round(self.window.seconds * 1000, 2))
        return lengths


@pytest.mark.parametrize(
    ("share_of_work", "late", "gap", "lengths"),
    [
        pytest.param(BUSY, 0.0, 20, [20, 40, 80, 160, 200, 200], id="few-to-a-loop-that-has-too-much-to-do"),
        pytest.param(CALM, 0.004, 20, [20, 40, 80, 160, 200, 200], id="few-to-a-loop-whose-processor-others-have"),
        pytest.param(BUSY, 0.0, 8, [20, 40, 80, 160, 160], id="until-they-are-enough"),
        pytest.param(BUSY, 0.0, 200, [20, 40, 40, 40], id="while-more-would-come"),
        pytest.param(CALM, 0.002, 20, [10, 10], id="not-for-a-loop-that-is-nearly-in-time"),
        pytest.param(CALM, 0.0, 20, [10, 10], id="not-for-a-loop-that-has-time"),
        pytest.param(BUSY, 0.0, 0.5, [10, 10], id="not-for-enough"),
        pytest.param(BUSY, 1.0, 0, [10, 10], id="not-for-none"),
    ],
)
async def test_a_window_is_longer_only_where_few_events_come_to_a_loop_that_has_too_much_to_do(
    share_of_work: float, late: float, gap: float, lengths: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Machine(monkeypatch).lengths(len(lengths), share_of_work, late, gap) == lengths


async def test_a_store_says_how_long_events_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, WindowSeconds(0.050, 0.300))
    assert machine.window.seconds == 0.050
    assert machine.lengths(5, BUSY, 0.0, 20) == [100, 200, 300, 300, 300]
    assert machine.lengths(4, CALM, 0.0, 20) == [150, 75, 50, 50]


@pytest.mark.parametrize(
    ("share_of_work", "gap", "lengths"),
    [
        pytest.param(CALM, 20, [100, 50, 25, 12.5, 10, 10], id="a-loop-has-time-again"),
        pytest.param(BUSY, 3, [100, 100], id="so-many-that-less-would-do"),
        pytest.param(BUSY, 200, [100, 50, 50], id="so-few-that-less-would-do"),
        pytest.param(BUSY, 10, [200, 200], id="not-where-it-is-just-long-enough"),
        pytest.param(HALF_BUSY, 20, [200, 200], id="not-where-a-loop-has-only-a-little-time-left"),
    ],
)
async def test_a_long_window_is_followed_by_shorter_ones_once_it_need_not_be_so_long(
    share_of_work: float, gap: float, lengths: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch)
    assert machine.lengths(5, BUSY, 0.0, 20)[-1] == 200
    assert machine.lengths(len(lengths), share_of_work, 0.0, gap) == lengths
