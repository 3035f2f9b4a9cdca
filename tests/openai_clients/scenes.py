"""The scenes of one client, played one after the other; what came of each is printed as JSON.

python <client>.py http://127.0.0.1:8000/v1
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

SCENE_SECONDS = 30.0


def play(scenes: Mapping[str, Callable[[str], Awaitable[Any]]]) -> None:
    """Each scene gets the base URL. One that fails is its exception."""
    with contextlib.redirect_stdout(sys.stderr):  # some clients print
        told = asyncio.run(_played(sys.argv[1], scenes))
    print(json.dumps(told))


async def _played(base_url: str, scenes: Mapping[str, Callable[[str], Awaitable[Any]]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, scene in scenes.items():
        try:
            async with asyncio.timeout(SCENE_SECONDS):
                told[name] = await scene(base_url)
        except Exception as error:  # the test that asks for this scene says it
            traceback.print_exception(error)
            told[name] = f"{type(error).__name__}: {error}"
    return told
