"""Backend tools for the conformance cases, as PythonTools: `tests.case_tools:add`.

Each call is noted in `executions` by its call id, so that a test can say how often something really ran.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway.events import Custom
from gateway.messages import Base64Source, ContentBlock, ImageBlock, JsonValue, TextBlock
from gateway.tool import ToolContext, ToolError

executions: Counter[str] = Counter()

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def add(a: float, b: float, context: ToolContext) -> float:
    """Add two numbers."""
    executions[context.call_id] += 1
    return a + b


async def refund(order: str, context: ToolContext, amount: float = 0) -> str:
    """Give money back."""
    executions[context.call_id] += 1
    return f"refunded {order} with {amount:g}"


async def fail(context: ToolContext) -> str:
    """Always fail."""
    executions[context.call_id] += 1
    raise ToolError("the shelf is empty")


async def nothing() -> str:
    """Give no text at all."""
    return ""


async def odd_values() -> dict[str, Any]:
    """Give values that JSON does not have."""
    return {
        "nan": float("nan"),
        "infinite": float("inf"),
        "at": datetime(2026, 11, 20, tzinfo=UTC),
        "price": Decimal("1.50"),
        "bytes": b"\x00\xff",
        "half": "\ud83d",
    }


async def picture() -> list[ContentBlock]:
    """Give words and a picture."""
    return [TextBlock("a pixel"), ImageBlock(Base64Source(PIXEL, "image/png"))]


async def hang() -> str:
    """Never come to an end."""
    await asyncio.get_running_loop().create_future()
    return "never"


async def put(key: str, value: JsonValue, context: ToolContext) -> str:
    """Put a value into the shared state."""
    before = context.state.value if isinstance(context.state.value, dict) else {}
    context.state.replace({**before, key: value})
    return f"{key} is set"


async def put_odd(context: ToolContext) -> str:
    """Put values into the shared state that JSON does not have."""
    context.state.replace({"nan": float("nan"), "at": datetime(2026, 11, 20, tzinfo=UTC)})  # type: ignore[dict-item]
    return "set"


async def reveal(context: ToolContext) -> JsonValue:
    """Give the shared state as the tool sees it."""
    return context.state.value


def python_tool(name: str, **more: object) -> dict[str, object]:
    """The configuration of one of these tools."""
    return {"type": "PythonTool", "name": name, "parameters": {"function": f"tests.case_tools:{name}"}, **more}


def python_tools(*names: str) -> list[dict[str, object]]:
    """The configuration of these tools."""
    return [python_tool(name) for name in names]


def tell_over_a2a(context: ToolContext) -> str:
    """Answer a client of A2A with a message."""
    context.announce(Custom("a2a.message", {"parts": [{"text": "My own words"}]}))
    return "told"
