"""Protocols as objects of a program that embeds the gateway: `Application(settings, protocol_adapters=[...])`.

protocol_adapter.py  what an adapter is: `ProtocolAdapter`, also for protocols of one's own
a2a.py, agent_api.py, responses.py   the gateway's own protocols as adapters
adapter_app.py       where an adapter puts its endpoints: `app.get`, `app.post`
adapter_request.py   what their handlers get
agent_function.py    what it calls to ask an agent: `func(request)`
streamed_items.py    what a handler yields, as a stream of server-sent events
choice.py            which protocols an application serves

Below: the protocols, the Agent API's room, settings. Above: the composition root.
"""

from gateway.adapters.a2a import A2AAdapter, A2AFastAPIDefaultAdapter
from gateway.adapters.adapter_app import AdapterApp
from gateway.adapters.adapter_request import AdapterRequest
from gateway.adapters.agent_api import AgentApiAdapter
from gateway.adapters.agent_function import AgentCall, AgentFunction
from gateway.adapters.protocol_adapter import ProtocolAdapter
from gateway.adapters.responses import ResponseAPIDefaultAdapter, ResponsesAdapter

__all__ = [
    "A2AAdapter",
    "A2AFastAPIDefaultAdapter",
    "AdapterApp",
    "AdapterRequest",
    "AgentApiAdapter",
    "AgentCall",
    "AgentFunction",
    "ProtocolAdapter",
    "ResponseAPIDefaultAdapter",
    "ResponsesAdapter",
]
