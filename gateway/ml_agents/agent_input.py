"""The bodies of ml-commons' executions as canonical input: text, content blocks, messages, or the older question.

Below: ml_commons.input_messages, parameters. Above: execution_start, for `_execute` and `_execute/stream`. Pure.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/execute-agent/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gateway.errors import InvalidRequestError
from gateway.messages import JsonValue, MediaBlock, Message, json_kind
from gateway.ml_agents.parameters import Parameters, read_parameters
from gateway.ml_commons.content import INVALID_FORM, wrong
from gateway.ml_commons.input_messages import SUPPORTED, InputReader

logger = logging.getLogger(__name__)

_AG_UI_NAMES: Final = frozenset({"threadId", "runId", "thread_id", "run_id"})


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution's body as it was read. `messages` are empty if an earlier interaction is answered (again).

    `minted` are the ids that were made here. `media` are the media for the model, each with its pointer in the body.
    `form` is ml-commons' name for the form of the input.
    """

    messages: tuple[Message, ...]
    parameters: Parameters
    minted: frozenset[str] = frozenset()
    media: tuple[tuple[str, MediaBlock], ...] = ()
    form: str = ""

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of the user messages that the run answers; none if the messages only go on with an earlier turn."""
        ids: list[str] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            if message.role == "user":
                ids.append(message.id)
        return tuple(reversed(ids))


def is_ag_ui(body: JsonValue) -> bool:
    """Whether a body is an AG-UI input: it names a thread or a run of AG-UI, and has nothing of an execution."""
    if not isinstance(body, dict) or _AG_UI_NAMES.isdisjoint(body):
        return False
    return body.get("input") is None and body.get("parameters") is None


def read_execution(body: JsonValue, of_agent: Mapping[str, str] = MappingProxyType({})) -> Execution:
    """Read the body of `_execute` or `_execute/stream` that is no AG-UI input. `of_agent` are the agent's
    parameters, as in `read_parameters`.

    Raises:
        InvalidRequestError: with the code INVALID_FORM or INVALID_INPUT.
    """
    try:
        return _execution(body, of_agent)
    except InvalidRequestError as error:
        field = error.problems[0].pointer if error.problems else ""
        extra = {"input_format": _format_name(body), "reason": error.message, "field": field}
        logger.warning("an agent's input could not be used", extra=extra)
        raise


def _execution(body: JsonValue, of_agent: Mapping[str, str]) -> Execution:
    if type(body) is not dict:
        message = f"the body is {json_kind(body)}; it must be an object with 'input' or 'parameters'"
        raise wrong(message, "", SUPPORTED, code=INVALID_FORM)
    parameters = read_parameters(body, of_agent)
    given, question = body.get("input"), parameters.question
    if given is None:
        if question is None and not parameters.goes_on:
            raise wrong("Agent input data can not be empty.", "/input", SUPPORTED)
        given, at = question, "/parameters/question"
    else:
        at = "/input"
        if question is not None:
            extra = {"used": "input", "left_out": "parameters.question"}
            logger.warning(
                "deprecated: a request has 'input' and 'parameters.question'; send 'input' alone", extra=extra
            )
    if given is None:
        return Execution((), parameters)
    reader = InputReader(at)
    messages = reader.messages(given)
    logger.debug("read an agent's input", extra={"input_format": reader.form, "messages": len(messages)})
    return Execution(messages, parameters, frozenset(reader.minted), tuple(reader.media), reader.form)


def _format_name(body: JsonValue) -> str:
    given: Any = body.get("input") if isinstance(body, dict) else None
    if isinstance(given, list):
        first = given[0] if given else None
        is_message = isinstance(first, dict) and "role" in first
        return "MESSAGES" if is_message else "CONTENT_BLOCKS"
    return "TEXT" if isinstance(given, str) else "UNKNOWN" if given is not None else "QUESTION"
