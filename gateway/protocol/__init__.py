"""The contract of wire protocols. A protocol parses requests into AgentInput (pure), calls its ProtocolEnvironment, and
renders events (pure).

wire_protocol.py   what a protocol is
environment.py     what each of them gets: the access to everything below, in one object
run_access.py      runs and approvals
thread_access.py   threads, their messages and versions
agent_access.py    agents and tools
caller_access.py   who may what, what counts; documents
repeated_requests.py   the run that an earlier copy of a request began
input_cache.py     what was read and recognised of a conversation's last request
protocol_settings.py   what the operator decides for a protocol, as it holds for each caller

Below: the runner, access; endpoints, of which a protocol finds here what it needs. Above: the protocols, their rooms.
"""

from gateway.endpoints.answers import json_response, time_text
from gateway.endpoints.requests import caller_of, page_asked, path_id, read_body, read_json, request_id_of
from gateway.endpoints.routes import Endpoint, VisitorRoute
from gateway.protocol.environment import ProtocolEnvironment
from gateway.protocol.thread_access import WHOLE_THREAD
from gateway.protocol.wire_protocol import WireProtocol

__all__ = [
    "WHOLE_THREAD",
    "Endpoint",
    "ProtocolEnvironment",
    "VisitorRoute",
    "WireProtocol",
    "caller_of",
    "json_response",
    "page_asked",
    "path_id",
    "read_body",
    "read_json",
    "request_id_of",
    "time_text",
]
