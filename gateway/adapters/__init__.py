"""Protocols as objects of a program that embeds the gateway: `Application(settings, protocol_adapters=[...])`.

protocol_adapter.py  the contract of adapters, `ProtocolAdapter`, also for a program's own protocols
a2a.py, agent_api.py, responses.py   the gateway's own protocols as adapters
adapter_app.py       adds an adapter's endpoints: `app.get`, `app.post`
adapter_request.py   the request that a handler gets
agent_function.py    lets a handler ask an agent: `func(request)`
streamed_items.py    a handler's items as a stream of server-sent events
choice.py            chooses the protocols that an application serves

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
