"""Plain functions that check_orders.yaml names; there is no flow in this file."""

from typing import Any


def open_batch(orders: list[dict[str, Any]]) -> int:
    print(f"a batch of {len(orders)} orders")
    return len(orders)


def check_order(ctx: Any, limit: int) -> str:
    order = ctx.get_var("order")
    verdict = "ask a person" if order["amount"] > limit else "fine"
    print(f"order {order['id']} over {order['amount']}: {verdict}")
    ctx.scratch.setdefault("verdicts", []).append(verdict)
    return verdict


def close_batch(ctx: Any) -> dict[str, int]:
    verdicts = ctx.scratch["verdicts"]
    return {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
