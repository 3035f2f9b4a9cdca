"""An agent's card: its description, its skills, its address and its interfaces.

Below: settings, dialects. Above: the routes of cards. Pure. A card is for clients of both versions,
unless it is strict: beside the interfaces of 1.0 stand the members by which clients of 0.3 find their way.
https://a2a-protocol.org/latest/specification/#441-agentcard (1.0), https://a2a-protocol.org/v0.3.0/specification/
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.a2a.dialects import ACTIVITY
from gateway.a2a.settings import CardSettings
from gateway.agent import AgentDefinition
from gateway.messages import JsonObject, JsonValue, ToolSpec

_RPC: Final = "JSONRPC"
_REST: Final = "HTTP+JSON"
_KEY: Final = "key"
_DEFAULT: Final = CardSettings()


def agent_card(
    agent: AgentDefinition,
    written: CardSettings | None,
    url: str,
    *,
    strict: bool = False,
    keyed: bool = True,
    tools: Iterable[ToolSpec] = (),
) -> JsonObject:
    """The card of an agent that is served at `url`.

    `written` are the members that its operator wrote. `strict`: only 1.0. `keyed`: callers need a key. `tools`
    are the agent's, which an extended card shows as skills.
    """
    said = written or _DEFAULT
    name = said.name or agent.name
    description = said.description or agent.description or f"The agent {name}."
    card: JsonObject = {
        "name": name,
        "description": description,
        "supportedInterfaces": _interfaces(url, strict=strict),
        "version": said.version,
        "capabilities": _capabilities(keyed=keyed),
        "defaultInputModes": [*said.default_input_modes],
        "defaultOutputModes": [*said.default_output_modes],
        "skills": [*_skills(said, agent.id, name, description), *map(_tool_skill, tools)],
    }
    if said.provider is not None:
        card["provider"] = said.provider.model_dump()
    if said.documentation_url is not None:
        card["documentationUrl"] = said.documentation_url
    if said.icon_url is not None:
        card["iconUrl"] = said.icon_url
    if keyed:
        card["securitySchemes"] = {_KEY: _security_scheme(strict=strict)}
        card["securityRequirements"] = [{"schemes": {_KEY: {"list": []}}}]
    return card if strict else {**card, **_members_v03(url, keyed=keyed)}


def _interfaces(url: str, *, strict: bool) -> list[JsonValue]:
    served = [(_RPC, "1.0"), (_REST, "1.0")] + ([] if strict else [(_RPC, "0.3")])
    return [{"url": url, "protocolBinding": binding, "protocolVersion": version} for binding, version in served]


def _capabilities(*, keyed: bool) -> JsonObject:
    activity: JsonObject = {
        "uri": ACTIVITY,
        "description": "Reasoning, and calls of the agent's own tools, in the messages of WORKING statuses.",
        "required": False,
    }
    return {
        "streaming": True,
        "pushNotifications": True,
        "extendedAgentCard": keyed,
        "extensions": [activity],
    }


def _skills(said: CardSettings, agent_id: str, name: str, description: str) -> Sequence[JsonValue]:
    if not said.skills:
        return [{"id": agent_id, "name": name, "description": description, "tags": ["agent"]}]
    return [
        {key: value for key, value in skill.model_dump(mode="json", by_alias=True).items() if value}
        for skill in said.skills
    ]


def _tool_skill(tool: ToolSpec) -> JsonObject:
    return {"id": tool.name, "name": tool.name, "description": tool.description or tool.name, "tags": ["tool"]}


def _security_scheme(*, strict: bool) -> JsonObject:
    scheme: JsonObject = {"scheme": "Bearer", "description": "A key of the gateway's: Authorization: Bearer <key>"}
    wrapped: JsonObject = {"httpAuthSecurityScheme": scheme}
    return wrapped if strict else {**wrapped, "type": "http", **scheme}


def _members_v03(url: str, *, keyed: bool) -> JsonObject:
    members: JsonObject = {
        "url": url,
        "preferredTransport": _RPC,
        "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": keyed,
    }
    if keyed:
        members["security"] = [{_KEY: []}]
    return members
