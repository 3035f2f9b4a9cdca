def refund(order_id: str, amount: float) -> str:
    """Refund an amount of an order."""
    return f"Refunded {amount} of order {order_id}."
