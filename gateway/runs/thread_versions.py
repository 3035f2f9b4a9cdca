"""Lists, chooses and deletes a thread's versions, and forks one into a new thread.

Below: the run driver, its threads' lines, removal, endings. Above: the runner. intake makes the versions.
"""

from __future__ import annotations

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import new_id
from gateway.runs.driver import RunDriver
from gateway.runs.endings import forked, no_thread, no_version
from gateway.runs.limits import RunLimits
from gateway.runs.thread_writes import check_room
from gateway.store import Page, ThreadVersion


class ThreadVersions:
    """The versions of threads in a driver's store."""

    def __init__(self, driver: RunDriver) -> None:
        self._driver = driver
        self._store = driver.store

    async def page(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[ThreadVersion]:
        """A page of the thread's versions, by number. Raises NotFoundError for an unknown thread."""
        page = await self._store.list_versions(owner, thread_id, limit=limit, cursor=cursor)
        if not page.items and await self._store.load_summary(owner, thread_id) is None:
            raise no_thread(thread_id)
        return page

    async def select(self, owner: str, thread_id: str, version: int) -> None:
        """Make a version the current one.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: a run is at work on the thread, or waits for it.
        """
        async with self._driver.lines.visit(owner, thread_id, waits=False):
            if not await self._store.select_version(owner, thread_id, version):
                raise no_version(thread_id, version)

    async def delete(self, owner: str, thread_id: str, version: int) -> None:
        """Delete a version, also at providers that hold state for it alone.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: it is the current one.
        """
        removal = self._driver.removal
        if not await removal.delete_version(self._driver.agents, owner, thread_id, version):
            raise no_version(thread_id, version)

    async def fork(self, owner: str, thread_id: str, from_message: str, limits: RunLimits | None = None) -> str:
        """The id of a new thread with the messages of the current version up to and including that one. See `forked`.

        Raises:
            NotFoundError: no such thread.
            InvalidRequestError: the current version has no such message.
            ConflictError: the thread was changed meanwhile.
            TooManyRequestsError: its site has no room left in the store.
        """
        await check_room(self._store, owner, limits)
        thread = await self._store.load_thread(owner, thread_id)
        if thread is None:
            raise no_thread(thread_id)
        place = next((place for place, each in enumerate(thread.messages, 1) if each.id == from_message), None)
        if place is None:
            raise InvalidRequestError(
                f"thread {thread_id!r} has no message {from_message[:64]!r} in its current version",
                code="message_not_found",
                problems=[FieldProblem("/fromMessage", "expected the id of a message of the thread")],
            )
        fork = forked(thread, new_id("thread"), thread.messages[:place], self._driver.clock.now())
        if not await self._store.fork_thread(owner, thread_id, fork):
            raise no_thread(thread_id)
        return fork.thread_id
