"""The contract of wire protocols. A protocol parses requests into AgentInput (pure), calls its ProtocolEnvironment, and
renders events (pure).

wire_protocol.py   what a protocol is
environment.py     the one object that each of them gets: the access to everything below
run_access.py      runs and approvals
thread_access.py   threads, their messages and versions
agent_access.py    agents and tools
caller_access.py   rights and limits of callers; their documents
begin.py           begins the run of a request: the agent, an earlier copy of the request, the plans, the start
begun_runs.py      a run that has begun, by its id
earlier_calls.py   the calls that an earlier run left open for a person
input_cache.py     caches a conversation's last request, as it was read and recognised
renderer.py        the contract of renderers; a run as a stream, or as one body
run_events.py      a run's events, made from its messages once its log is gone
protocol_settings.py   a protocol's settings, as they hold for each caller

What the routes of all protocols share:

requests.py        reads a request: who asks, ids in its path, its body
fields.py          the members of a body, and the problems in them
media_fields.py, tool_fields.py   media and a client's tools in the members of a body
answers.py         plain JSON answers; headers that name a run
pages.py           how long a page of a list may be in bytes
failure_status.py  the HTTP status of a run that failed
error_forms.py     which protocol's form an error has
routes.py          routes that visitors may use too; functions as endpoints
route_table.py     finds a request's route among all
paths.py           paths with ids in which a slash is part of the id
closed_protocols.py   refuses keys the protocols that are turned off for them
time_sharing.py    shares the loop's time between long pieces of work

It also gives the types of lower floors that the code of protocols names: Viewer, Batch and ThreadHead (gateway.runs),
OpenAgent, StoredAgent and ToolDescription (gateway.agents); and `staying_here`, for what touches several threads.

Below: the runner, access, problems, errors. Above: the rooms of protocols.
"""

from gateway.agents.caller_tools import ToolDescription
from gateway.agents.open_agent import OpenAgent
from gateway.agents.stored import StoredAgent
from gateway.protocol.answers import json_response, time_text
from gateway.protocol.environment import ProtocolEnvironment
from gateway.protocol.renderer import rendered_body, rendered_stream
from gateway.protocol.requests import caller_of, page_asked, path_id, read_body, read_json, request_id_of
from gateway.protocol.routes import Endpoint, VisitorRoute
from gateway.protocol.thread_access import WHOLE_THREAD
from gateway.protocol.wire_protocol import WireProtocol
from gateway.runs.elsewhere import staying_here
from gateway.runs.thread_points import ThreadHead
from gateway.runs.viewer import Batch, Viewer

__all__ = [
    "WHOLE_THREAD",
    "Batch",
    "Endpoint",
    "OpenAgent",
    "ProtocolEnvironment",
    "StoredAgent",
    "ThreadHead",
    "ToolDescription",
    "Viewer",
    "VisitorRoute",
    "WireProtocol",
    "caller_of",
    "json_response",
    "page_asked",
    "path_id",
    "read_body",
    "read_json",
    "rendered_body",
    "rendered_stream",
    "request_id_of",
    "staying_here",
    "time_text",
]
