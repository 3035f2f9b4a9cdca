"""What every store promises of the gateway's own secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.store import Store
from tests.stored_samples import within


async def test_a_secret_is_the_first_one_that_was_given(store: Store) -> None:
    assert await within(store.keep_secret("a", b"\x00first")) == b"\x00first"
    assert await within(store.keep_secret("a", b"second")) == b"\x00first"
    assert await within(store.keep_secret("b", b"second")) == b"second"


async def test_of_many_at_one_moment_all_get_the_same(store: Store) -> None:
    given = [bytes([number]) * 32 for number in range(20)]
    got = await within(asyncio.gather(*[store.keep_secret("a", fresh) for fresh in given]))
    assert len(set(got)) == 1
    assert got[0] in given


async def test_a_secret_outlives_the_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    await within(store.keep_secret("a", b"kept"))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.keep_secret("a", b"other")) == b"kept"
    await within(store.close())
