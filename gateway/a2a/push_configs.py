"""Where a task's updates are posted: push notification configs, read, kept with their secrets sealed, and shown.

Below: dialects, errors, the protocols' environment. Above: push_delivery. One document has all configs of a task and is
deleted with the task's thread.
https://a2a-protocol.org/latest/specification/#431-pushnotificationconfig (1.0)
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.a2a.dialects import Dialect
from gateway.a2a.errors import invalid_params
from gateway.access.callers import Caller
from gateway.documents.document import Document, DocumentKind
from gateway.errors import ConflictError, InvalidRequestError
from gateway.messages import JsonObject, new_id
from gateway.protocol import ProtocolEnvironment
from gateway.query_dsl.search_body import MAX_RESULT_WINDOW

MOST_CONFIGS: Final = 8
"""How many a task may have."""
CONFIGS: Final = DocumentKind(
    "push notification configs",
    {"over_at": {"type": "double"}},
    sealed=("/configs/*/url", "/configs/*/token", "/configs/*/credentials"),
    own_ids=True,
)
"""Those of one task: the id is the task's. URLs are sealed, for they may have a secret in them. `over_at` is when the
last of the configs had nothing more to wait for, else 0.
"""

_LONGEST_ID: Final = 256
_LONGEST_TEXT: Final = 8192
_KEPT_SECONDS: Final = 7 * 86_400.0
_SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_MADE_MEANWHILE: Final = frozenset({"id_taken", "version_conflict"})


@dataclass(frozen=True, slots=True)
class PushConfig:
    """One config of a task. `token`, `scheme` and `credentials` are empty where there are none; sealed members are
    empty if they were not read.

    `seen` is the task's run whose end was posted, or given up; empty: none. `over`: the task has ended with it.
    """

    config_id: str
    url: str = field(repr=False)
    dialect: Dialect
    token: str = field(default="", repr=False)
    scheme: str = ""
    credentials: str = field(default="", repr=False)
    seen: str = ""
    over: bool = False

    def shown(self, task_id: str, dialect: Dialect) -> JsonObject:
        """The config as callers see it: without its token and its credentials, which only its receiver gets."""
        shown: JsonObject = {"id": self.config_id, "url": self.url}
        if dialect is Dialect.V03:
            if self.scheme:
                shown["authentication"] = {"schemes": [self.scheme]}
            return {"taskId": task_id, "pushNotificationConfig": shown}
        if self.scheme:
            shown["authentication"] = {"scheme": self.scheme}
        return {"taskId": task_id, **shown}


class PushConfigs:
    """The push notification configs of all callers; each sees its own."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    def read(self, value: object, pointer: str, dialect: Dialect) -> PushConfig:
        """The config of a request, which stands there at this pointer; without an id if it has none.

        Raises:
            InvalidRequestError: a member is wrong (-32602), or the fetch policy forbids the URL.
        """
        config = _object(value, pointer)
        url = _text(config, "url", pointer, most=_LONGEST_TEXT)
        if not url:
            raise invalid_params("a push notification config needs a url: where updates are posted", f"{pointer}/url")
        try:
            self._environment.fetcher.check(url)
        except InvalidRequestError as error:
            raise invalid_params(f"url: {error.message}", f"{pointer}/url") from error
        scheme, credentials = _authentication(config.get("authentication"), f"{pointer}/authentication", dialect)
        token = _header(config, "token", pointer)
        return PushConfig(_text(config, "id", pointer, most=_LONGEST_ID), url, dialect, token, scheme, credentials)

    async def put(
        self, caller: Caller, task_id: str, thread_id: str, config: PushConfig, *, counted: bool
    ) -> PushConfig:
        """Keep a config, in place of the one of the same id. Gives it as it is kept. If the config has no id, it gets
        the task's; if it is one of 1.0, and `counted` as a request of its own, it gets a new one.

        Raises:
            InvalidRequestError: the task would have too many configs (-32602).
            NotFoundError: its thread is gone.
        """
        default = new_id("push") if counted and config.dialect is Dialect.V1 else task_id
        kept = replace(config, config_id=config.config_id or default)

        def added(configs: Sequence[PushConfig]) -> Sequence[PushConfig]:
            others = [each for each in configs if each.config_id != kept.config_id]
            if len(others) >= MOST_CONFIGS:
                raise invalid_params(
                    f"a task has at most {MOST_CONFIGS} push notification configs; delete one of them first", "/id"
                )
            return [*others, kept]

        await self._change(caller, task_id, added, thread_id=thread_id, counted=counted)
        return kept

    async def of_task(self, caller: Caller, task_id: str, *, unsealed: bool = False) -> tuple[PushConfig, ...]:
        """All configs of a task, the oldest first; `unsealed`: with their secrets, to use them."""
        found = await self._environment.documents(caller).get(CONFIGS, task_id, unsealed=unsealed)
        return _configs(found)

    async def thread_of(self, caller: Caller, task_id: str) -> str | None:
        """The thread of a task that has configs; None: it has none."""
        found = await self._environment.documents(caller).get(CONFIGS, task_id)
        return None if found is None else found.thread_id

    async def one(self, caller: Caller, task_id: str, config_id: str, *, unsealed: bool = False) -> PushConfig | None:
        """A config of a task; None: there is none."""
        configs = await self.of_task(caller, task_id, unsealed=unsealed)
        return next((each for each in configs if each.config_id == config_id), None)

    async def delete(self, caller: Caller, task_id: str, config_id: str) -> None:
        """Delete a config, if it is there."""

        def left(configs: Sequence[PushConfig]) -> Sequence[PushConfig]:
            return [each for each in configs if each.config_id != config_id]

        await self._change(caller, task_id, left)

    async def note_seen(self, caller: Caller, task_id: str, config_id: str, run_id: str, *, over: bool) -> None:
        """Note that the end of that run was posted, or given up; `over`: it was the task's end."""

        def noted(configs: Sequence[PushConfig]) -> Sequence[PushConfig]:
            return [replace(each, seen=run_id, over=over) if each.config_id == config_id else each for each in configs]

        await self._change(caller, task_id, noted)

    async def open(self) -> AsyncGenerator[tuple[Document, PushConfig]]:
        """The configs of all tasks, of all owners, that may still have something to post. The document's id is the
        task's.
        """
        async for caller, task_id in self._found({"term": {"over_at": 0}}):
            if (found := await self._environment.documents(caller).get(CONFIGS, task_id)) is not None:
                for config in _configs(found):
                    if not config.over:
                        yield found, config

    async def forget_old(self) -> None:
        """Delete configs that had nothing to post for a week."""
        before = self._environment.now() - _KEPT_SECONDS
        async for caller, task_id in self._found({"range": {"over_at": {"gt": 0, "lt": before}}}):
            await self._environment.documents(caller).delete(CONFIGS, task_id)

    async def _found(self, query: JsonObject) -> AsyncGenerator[tuple[Caller, str]]:
        body: JsonObject = {"query": query, "size": MAX_RESULT_WINDOW, "_source": False}
        for caller in await self._environment.keepers(CONFIGS):
            answer: Any = await self._environment.documents(caller).search(CONFIGS, body)
            for hit in answer["hits"]["hits"]:
                yield caller, hit["_id"]

    async def _change(
        self,
        caller: Caller,
        task_id: str,
        change: Callable[[Sequence[PushConfig]], Sequence[PushConfig]],
        *,
        thread_id: str | None = None,
        counted: bool = False,
    ) -> None:
        """Replace a task's configs by the result of `change`; without a thread's id only if the task has configs."""
        documents = self._environment.documents(caller, counted=counted)
        while True:
            found = await documents.get(CONFIGS, task_id, unsealed=True)
            if found is None and thread_id is None:
                return
            changed = change(_configs(found))
            version = 0 if found is None else found.version
            try:
                if changed:
                    thread = thread_id if found is None else found.thread_id
                    await documents.put(CONFIGS, task_id, self._body(changed), version, thread_id=thread)
                else:
                    await documents.delete(CONFIGS, task_id, version)
                return
            except ConflictError as error:
                if error.code not in _MADE_MEANWHILE:
                    raise

    def _body(self, configs: Sequence[PushConfig]) -> JsonObject:
        over = all(each.over for each in configs)
        return {"over_at": self._environment.now() if over else 0, "configs": [_written(each) for each in configs]}


# --- what is stored ---------------------------------------------------------------------------------------------------


def _written(config: PushConfig) -> JsonObject:
    written: JsonObject = {"id": config.config_id, "url": config.url, "version": str(config.dialect)}
    optional: JsonObject = {
        "token": config.token,
        "scheme": config.scheme,
        "credentials": config.credentials,
        "seen": config.seen,
        "over": config.over,
    }
    return {**written, **{name: value for name, value in optional.items() if value}}


def _configs(found: Document | None) -> tuple[PushConfig, ...]:
    stored: Any = () if found is None else found.body["configs"]
    return tuple(
        PushConfig(
            each["id"],
            each.get("url", ""),
            Dialect(each["version"]),
            each.get("token", ""),
            each.get("scheme", ""),
            each.get("credentials", ""),
            each.get("seen", ""),
            each.get("over", False),
        )
        for each in stored
    )


# --- what requests say ------------------------------------------------------------------------------------------------


def _object(value: object, pointer: str) -> JsonObject:
    if not isinstance(value, dict):
        raise invalid_params("a push notification config is an object with a url", pointer)
    return value


def _text(value: JsonObject, name: str, pointer: str, *, most: int) -> str:
    """A text, empty where there is none."""
    text = value.get(name)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > most:
        raise invalid_params(f"{name} must be a text of at most {most} characters", f"{pointer}/{name}")
    return text


def _header(value: JsonObject, name: str, pointer: str) -> str:
    """A text that can be sent as a header's value, empty where there is none."""
    text = _text(value, name, pointer, most=_LONGEST_TEXT)
    if text and not _HEADER_VALUE.fullmatch(text):
        raise invalid_params(f"{name} is sent in a header: it must be printable ASCII", f"{pointer}/{name}")
    return text


def _authentication(value: object, pointer: str, dialect: Dialect) -> tuple[str, str]:
    """The scheme and the credentials; in 0.3 several schemes may be offered, of which the first is taken."""
    if value is None:
        return "", ""
    if not isinstance(value, dict):
        raise invalid_params("authentication must be an object with a scheme", pointer)
    name, scheme = "scheme", value.get("scheme")
    if dialect is Dialect.V03:
        name, schemes = "schemes", value.get("schemes")
        scheme = schemes[0] if isinstance(schemes, list) and schemes else None
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise invalid_params(f"{name} must name a scheme of HTTP authentication, as Bearer", f"{pointer}/{name}")
    return scheme, _header(value, "credentials", pointer)
