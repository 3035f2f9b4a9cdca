"""Every recorded and scripted run gives the bytes it gave before: the log, and what each protocol shows of it."""

from __future__ import annotations

import pytest

from tests.recorded_bytes.digests import digests_of, read_digests
from tests.recorded_bytes.renderings import columns_of
from tests.recorded_bytes.runs import recorded_runs

RUNS = recorded_runs()


@pytest.mark.parametrize("name", RUNS)
async def test_a_run_gives_the_bytes_that_are_recorded(name: str) -> None:
    recorded, found = read_digests()[name], digests_of(await columns_of(RUNS[name]))
    others = [column for column in found if recorded.get(column) != found[column]]
    assert not others, (
        f"the bytes of {name!r} differ in {', '.join(others)}. To see them, run `python -m tests.recorded_bytes "
        f'--only "{name}" write FOLDER` here and before the change, and compare the folders with `diff -r`. If the '
        "new bytes are wanted, run `python -m tests.recorded_bytes record`."
    )
    assert recorded.keys() == found.keys()


def test_every_run_is_recorded_and_no_other() -> None:
    assert list(read_digests()) == list(RUNS)
