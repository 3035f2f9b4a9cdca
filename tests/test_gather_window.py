"""The moment in which runs wait for each other's events, and readers for more words."""

from __future__ import annotations

import asyncio

from gateway.gather_window import GatherWindow

DEADLINE_SECONDS = 20


class Run:
    """A run as the window knows it."""

    def __init__(self, window: GatherWindow) -> None:
        self.said: list[str] = []
        self.kept: list[list[str]] = []
        self.handed_over = asyncio.Event()
        self._window = window

    def say(self, words: str) -> None:
        self.said.append(words)
        self._window.add(self)

    def hand_over(self) -> None:
        self.kept.append(self.said)
        self.said = []
        self.handed_over.set()


async def test_what_comes_right_when_the_moment_is_over_is_kept_with_what_was_there() -> None:
    window = GatherWindow(0.001)
    run = Run(window)
    run.say("there")
    reads = asyncio.Event()
    window.when_over(reads.set)

    async def read() -> None:
        await reads.wait()
        await asyncio.sleep(0)  # as the system is asked what came
        run.say("brought")

    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(read(), run.handed_over.wait())
    assert run.kept == [["there", "brought"]]


async def test_a_reader_needs_no_run_for_a_moment_to_begin_and_may_wait_for_one_after_the_other() -> None:
    window = GatherWindow(0.001)
    async with asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(3):
            reads = asyncio.Event()
            window.when_over(reads.set)
            await reads.wait()


async def test_a_reader_that_waits_again_at_once_holds_nobody_back() -> None:
    window = GatherWindow(0.001)
    run = Run(window)
    words = iter("abc")

    def read() -> None:
        if word := next(words, ""):
            run.say(word)
            window.when_over(read)

    window.when_over(read)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(run.kept) < 3:
            run.handed_over.clear()
            await run.handed_over.wait()
    assert run.kept == [["a"], ["b"], ["c"]]


async def test_without_a_moment_nobody_waits() -> None:
    said: list[str] = []
    GatherWindow(0).when_over(lambda: said.append("read"))
    assert said == ["read"]
