"""The body of `POST /process`. Pure.

Below: the readers of its parts. Above: start. Members that are not named here are ignored: clients send many of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.agent_api.errors import wrong
from gateway.agent_api.fields import AgentApiFields
from gateway.agent_api.input_messages import ReadInput, read_input
from gateway.agent_api.tools import read_tools
from gateway.messages import JsonValue, ToolSpec
from gateway.options.generation import GenerationOptions
from gateway.protocol.requests import no_object

_MOST_ANSWERS: Final = 5


@dataclass(frozen=True, slots=True)
class ProcessRequest:
    """A request. `run_id` and `thread_id` are None where it names none. `model` is the one that it asks for, empty
    for the agent's own. `answers`: how many it asks for.
    """

    input: ReadInput
    tools: tuple[ToolSpec, ...]
    options: GenerationOptions
    run_id: str | None = None
    thread_id: str | None = None
    model: str = ""
    answers: int = 1
    stream: bool = True


def read_request(body: JsonValue, known: ReadInput | None = None) -> ProcessRequest:
    """The request that a body is; `known` as for `read_input`.

    Raises:
        InvalidRequestError: 422; it names all wrong fields.
    """
    if not isinstance(body, dict):
        raise wrong(no_object(body), "")
    fields = AgentApiFields(body)
    run_id, other_id = fields.identifier("response_id"), fields.identifier("id")
    stream = fields.boolean("stream")
    request = ProcessRequest(
        read_input(fields, known),
        read_tools(fields),
        _generation(fields),
        run_id or other_id,
        fields.identifier("session_id"),
        fields.text("model") or "",
        fields.number("n", least=1, most=_MOST_ANSWERS) or 1,
        stream=stream is not False,
    )
    fields.text("user_id")
    if not request.input.read and not fields.problems:
        fields.wrong("input", "input says nothing; give it a message with content")
    fields.check()
    return request


def _generation(fields: AgentApiFields) -> GenerationOptions:
    """How the model is to answer."""
    return GenerationOptions(
        temperature=fields.real("temperature", 0, 2),
        top_p=fields.real("top_p", 0, 1),
        max_tokens=fields.number("max_tokens", least=1),
        stop=fields.string_or_strings("stop"),
        seed=fields.long("seed"),
        presence_penalty=fields.real("presence_penalty", -2, 2),
        frequency_penalty=fields.real("frequency_penalty", -2, 2),
    )
