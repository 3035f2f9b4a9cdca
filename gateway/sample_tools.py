"""Tools of the demonstration, and an example of a PythonTool: a function with types and a docstring.

The model sees the name, the docstring and a schema made from the signature; it does not see a parameter of type
ToolContext, which the gateway fills. Below: tool, errors.
"""

from __future__ import annotations

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.tool import ToolContext

_REFUND_LIMIT = 1000.0


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def refund(order_id: str, amount: float) -> JsonObject:
    """Refund an amount of money to the customer of an order."""
    if not 0 < amount <= _REFUND_LIMIT:
        raise ToolError(f"the amount is {amount:g}; it must be more than 0 and at most {_REFUND_LIMIT:g}")
    return {"orderId": order_id, "amount": round(amount, 2), "status": "refunded"}


def add_to_list(item: str, context: ToolContext) -> str:
    """Add an item to the list that the user sees beside the conversation."""
    state = context.state.value if isinstance(context.state.value, dict) else {}
    kept = state.get("list")
    items: list[JsonValue] = [*kept, item] if isinstance(kept, list) else [item]
    # replaced and not changed in place: viewers get the difference
    context.state.replace({**state, "list": items})
    return f"The list has {len(items)} item{'' if len(items) == 1 else 's'} now."
