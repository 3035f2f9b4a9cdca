"""The text that replaces a tool's exception for models and callers; the exception itself goes to the log.

Below: tool. Above: tool_executions, which calls tools, and the tools. Only the text of a `ToolError` is
shown: it was written for models and callers. Any other exception may contain a password, a path or a customer's data.
The log has all of it, under the request's id, and the shown text contains that id.
"""

from __future__ import annotations

import asyncio
import logging

from gateway.tool import ConfiguredTool, Tool, ToolContext
from gateway.tool_output import encodable

logger = logging.getLogger(__name__)

_MAX_REASON_CHARACTERS = 2_000


def note_failure(tool: Tool, context: ToolContext, error: BaseException) -> str:
    """Log the exception; returns the text to show."""
    name = tool.spec.name
    fields = {
        "tool": name,
        "call_id": context.call_id,
        "run_id": context.run_id,
        "request_id": context.request_id,
    }
    logger.warning("a tool raised an exception", extra=fields, exc_info=error)
    if isinstance(tool, ConfiguredTool) and tool.settings.expose_errors:  # its operator is developing it
        return f"The tool {name!r} failed: {exception_text(error)}"
    # a run that continues in another process has no request
    found_under = f"request {context.request_id}" if context.request_id else f"run {context.run_id}"
    return f"The tool {name!r} failed ({found_under})."


def exception_text(error: BaseException) -> str:
    """An exception's text without its class, which only programmers need."""
    if isinstance(error, asyncio.CancelledError):
        return "something it was waiting for was cancelled"
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return "it tried to end the process"
    try:
        text = encodable(str(error)).strip()
    except Exception:  # an exception whose own text raises one
        text = ""
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    text = text or "it gave no reason"
    return text if len(text) <= _MAX_REASON_CHARACTERS else text[:_MAX_REASON_CHARACTERS] + " [truncated]"
