"""How the model is to answer, as a request says it. Pure.

Below: fields. Above: request.
"""

from __future__ import annotations

from gateway.agent_api.fields import AgentApiFields
from gateway.options.generation import GenerationOptions
from gateway.protocol.generation_fields import read_seed, read_stop


def read_generation(body: AgentApiFields) -> GenerationOptions:
    """The samplers and limits of a request's body. Problems are noted."""
    return GenerationOptions(
        temperature=body.real("temperature", 0, 2),
        top_p=body.real("top_p", 0, 1),
        max_tokens=body.number("max_tokens", least=1),
        stop=read_stop(body),
        seed=read_seed(body),
        presence_penalty=body.real("presence_penalty", -2, 2),
        frequency_penalty=body.real("frequency_penalty", -2, 2),
    )
