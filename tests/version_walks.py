"""Walks over a store's versions and forks, beside a plain model: every version is a list of all its messages.

A step is (what, a number, another number); what the numbers choose depends on what there is by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import strategies as st

from gateway.agent import ABSENT, Absent
from gateway.frozen import replace
from gateway.history.versions import history_change
from gateway.messages import JsonValue, Message, TextBlock
from gateway.records import dump_json, encode_message
from gateway.store import Store, Thread
from tests.stored_samples import OWNER, run, within

KINDS = [
    "say",
    "edit",
    "edit in place",
    "regenerate",
    "shorten",
    "program",
    "switch",
    "delete version",
    "fork",
    "delete",
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 50)), max_size=25)


@dataclass
class PlainVersion:
    """`shown` are its messages, `earlier` those that it does not show any more."""

    shown: list[Message]
    earlier: list[Message] = field(default_factory=list)
    shortened: bool = False
    state: JsonValue | Absent = ABSENT


@dataclass
class PlainThread:
    versions: dict[int, PlainVersion]
    current: int = 1
    last: int = 1

    @property
    def now(self) -> PlainVersion:
        return self.versions[self.current]


class VersionWalk:
    """`step` does one thing to the store and to the model; `check` compares them."""

    def __init__(self, store: Store, owner: str = OWNER, collection: str = "") -> None:
        self.store = store
        self.threads: dict[str, PlainThread] = {}
        self._owner = owner
        self._collection = collection
        self._numbers = count(1)

    def fresh(self, role: str = "user", *, answer: bool = False) -> Message:
        number = next(self._numbers)
        turn = f"turn_{number}" if answer else None
        return Message(f"m{number}", "assistant" if answer else role, (TextBlock(f"words {number}"),), turn_id=turn)  # type: ignore[arg-type]

    def exchange(self) -> list[Message]:
        return [self.fresh(), self.fresh(answer=True)]

    async def step(self, kind: str, one: int, other: int) -> None:
        names = sorted(self.threads)
        if not names or (kind == "say" and one > 45):
            name = f"t{next(self._numbers)}"
            self.threads[name] = PlainThread({1: PlainVersion([])})
            await self._write(name, [self.fresh("system"), *self.exchange()], "say")
            return
        name = names[one % len(names)]
        shown = self.threads[name].now.shown
        place = other % len(shown) if shown else 0
        match kind:
            case "say":
                await self._write(name, [*shown, *self.exchange()], kind)
            case "edit":
                await self._write(name, [*shown[:place], *self.exchange()], kind)
            case "edit in place":
                if shown and shown[place].role == "user":
                    said = replace(shown[place], content=(TextBlock(f"edited {next(self._numbers)}"),))
                    await self._write(name, [*shown[:place], said, *shown[place + 1 :]], "edit")
            case "regenerate":
                await self._write(name, [*shown[:-1], self.fresh(answer=True)], "edit")
            case "shorten":
                await self._write(name, [*shown[place:], *self.exchange()], kind)
            case "program":
                if shown and shown[0].role == "system":
                    await self._write(name, [self.fresh("system"), *shown[1:]], kind)
            case "switch":
                await self._switch(name, other)
            case "delete version":
                await self._delete_version(name, other)
            case "fork":
                if shown:
                    await self._fork(name, place + 1)
            case _:
                assert await within(self.store.delete_thread(self._owner, name))
                del self.threads[name]

    async def _write(self, name: str, now: list[Message], kind: str) -> None:
        """One run that takes in `now`."""
        stored = await within(self.store.load_thread(self._owner, name))
        thread = stored or Thread(self._owner, name, "assistant", 1.0, 1.0, collection=self._collection)
        plain, before = self.threads[name], self.threads[name].now
        change = history_change(thread.messages, tuple(now), shortened=thread.shortened)
        # of several sizes: a store may keep large ones apart
        state: JsonValue = {"of": now[-1].id if now else None, "much": "x" * (len(now) % 3 * 2_500)}
        becomes = replace(thread, messages=tuple(now), state=state)
        if change.makes_version:
            number = thread.last_version + 1
            becomes = replace(becomes, version=number, last_version=number, shortened=change.shortened)
            plain.current = plain.last = number
            plain.versions[number] = PlainVersion(now, shortened=change.shortened)
        elif change.rewrite is not None and change.rewrite.hides:
            before.earlier += [each for each in before.shown if each not in now and each.role != "system"]
            before.shown = now
        else:
            gone = [message for message in before.shown if message not in now]
            assert all(message.role == "system" for message in gone), f"{kind} lost {gone}"
            before.shown = now
        plain.now.state = state
        asked = run(f"r{next(self._numbers)}", name, owner=self._owner)
        await within(self.store.begin_run(asked, becomes, keep=change.keep, rewrite=change.rewrite))

    async def _switch(self, name: str, choice: int) -> None:
        plain = self.threads[name]
        numbers = sorted(plain.versions)
        plain.current = numbers[choice % len(numbers)]
        assert await within(self.store.select_version(self._owner, name, plain.current))

    async def _delete_version(self, name: str, choice: int) -> None:
        plain = self.threads[name]
        others = sorted(number for number in plain.versions if number != plain.current)
        if others:
            number = others[choice % len(others)]
            assert await within(self.store.delete_version(self._owner, name, number))
            del plain.versions[number]

    async def _fork(self, name: str, length: int) -> None:
        thread = await within(self.store.load_thread(self._owner, name))
        assert thread is not None
        fork_id = f"t{next(self._numbers)}"
        shared = thread.messages[:length]
        fork = Thread(self._owner, fork_id, "assistant", 2.0, 2.0, messages=shared, collection=self._collection)
        assert await within(self.store.fork_thread(self._owner, name, fork))
        self.threads[fork_id] = PlainThread({1: PlainVersion(list(fork.messages))})

    @property
    def _versions(self) -> list[PlainVersion]:
        return [version for plain in self.threads.values() for version in plain.versions.values()]

    @property
    def records(self) -> list[bytes]:
        """All messages of all versions, each once, as a store keeps them."""
        return sorted({encode_message(m) for each in self._versions for m in (*each.earlier, *each.shown)})

    @property
    def size(self) -> int:
        """The bytes of these and of the versions' states."""
        states = [dump_json(each.state) for each in self._versions if not isinstance(each.state, Absent)]
        return sum(map(len, self.records)) + sum(map(len, states))

    @property
    def copied_size(self) -> int:
        """As `size`, if forks have copies of their messages."""
        size = self.size - sum(map(len, self.records))
        for plain in self.threads.values():
            own = {encode_message(m) for each in plain.versions.values() for m in (*each.earlier, *each.shown)}
            size += sum(map(len, own))
        return size

    async def check(self) -> None:
        for name, plain in self.threads.items():
            thread = await within(self.store.load_thread(self._owner, name))
            assert thread is not None
            assert list(thread.messages) == plain.now.shown
            assert thread.state == plain.now.state
            assert (thread.version, thread.last_version) == (plain.current, plain.last)
            assert thread.shortened == plain.now.shortened
            assert await self._listed(name, None) == plain.now.shown
            await self._check_found(name)
            for number, version in plain.versions.items():
                assert await self._listed(name, number) == [*version.earlier, *version.shown]
            page = await within(self.store.list_versions(self._owner, name, limit=1000, cursor=None))
            assert [(item.number, item.is_current) for item in page.items] == [
                (number, number == plain.current) for number in sorted(plain.versions)
            ]

    async def _check_found(self, name: str) -> None:
        """Each message of any version is found where it is in the current one."""
        for message in {each.id: each for version in self.threads[name].versions.values() for each in version.shown}:
            having = {other for other, plain in self.threads.items() if message in [m.id for m in plain.now.shown]}
            assert set(await within(self.store.find_message(self._owner, message, limit=100))) == having

    async def _listed(self, name: str, version: int | None) -> list[Message]:
        page = await within(self.store.list_messages(self._owner, name, limit=1000, cursor=None, version=version))
        return list(page.items)
