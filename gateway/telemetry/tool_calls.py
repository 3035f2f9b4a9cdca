"""A span for each call of a backend tool: put around the tools where traces are collected.

Below: traces, content, tool. Above: the composition root.
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/execute-tool.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.agent import ToolSettings
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.telemetry.content import arguments_content, result_content
from gateway.tool import Tool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.traces import Attributes, Span, error_type


def traced_tool_types(types: Mapping[str, ToolType]) -> Mapping[str, ToolType]:
    """The same tool types, whose tools have a span for each call."""
    return {name: replace(part, open=_Opening(part)) for name, part in types.items()}


class _Opening:
    def __init__(self, part: ToolType) -> None:
        self._part = part

    def __call__(self, settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
        return TracedToolbox(self._part.open(settings, environment))


@dataclass(frozen=True, slots=True)
class TracedToolbox:
    """A toolbox around another."""

    toolbox: Toolbox

    async def tools(self) -> tuple[Tool, ...]:
        return tuple(TracedTool(tool) for tool in await self.toolbox.tools())

    def problem(self) -> str | None:
        return self.toolbox.problem()

    async def close(self) -> None:
        await self.toolbox.close()


@dataclass(frozen=True, slots=True)
class TracedTool:
    """A tool around another. Its span is the current one while the tool runs: the tool's own spans stand below it."""

    tool: Tool

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        if context.trace is None:
            return await self.tool.call(arguments, context)
        span = context.trace.begin(f"execute_tool {self.spec.name}", _told(self.spec, context))
        if span.shows_content:
            span.add(arguments_content(arguments))
        try:
            with span.current():
                result = await self.tool.call(arguments, replace(context, trace=span))
        except BaseException as error:
            span.end("tool_error" if isinstance(error, ToolError) else error_type(error))
            raise
        _end(span, result)
        return result


def _told(spec: ToolSpec, context: ToolContext) -> Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": spec.name,
        "gen_ai.tool.call.id": context.call_id,
        "gen_ai.tool.description": spec.description,
        "gen_ai.tool.type": "function",
    }


def _end(span: Span, result: tuple[ContentBlock, ...]) -> None:
    if span.shows_content:
        span.add(result_content(result))
    span.end()
