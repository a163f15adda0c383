"""A nightly report: read the orders, look at them from three sides at once, write the report.

    load_orders --> revenue_by_region --+
                --> top_products -------+--> build_report --> publish
                --> find_outliers ------+

A parameter with the name of a task gets that task's result; `days` and `limit` are params of the run.
The unusual orders are a file of the run as well: `pyoco-client artifacts list RUN_ID`.
"""

import time
from collections import Counter
from typing import Any

from pyoco import Flow, task

REGIONS = ("north", "south", "east", "west")
PRODUCTS = ("apples", "bread", "coffee", "dates", "eggs")

Orders = list[dict[str, Any]]


@task
def load_orders(days: int = 7) -> Orders:
    print(f"reading the orders of {days} days")
    time.sleep(0.7)
    return [
        {
            "region": REGIONS[number * 7 % len(REGIONS)],
            "product": PRODUCTS[number * 3 % len(PRODUCTS)],
            "amount": 900 if number % 53 == 17 else 20 + number * 13 % 60,
        }
        for number in range(days * 20)
    ]


@task
def revenue_by_region(load_orders: Orders) -> dict[str, int]:
    revenue: Counter[str] = Counter()
    for order in load_orders:
        revenue[order["region"]] += order["amount"]
    time.sleep(1.0)
    print(f"{len(revenue)} regions")
    return dict(revenue)


@task
def top_products(load_orders: Orders, limit: int = 3) -> list[str]:
    sold = Counter(order["product"] for order in load_orders)
    time.sleep(1.4)
    print(f"best of {len(sold)} products")
    return [product for product, _ in sold.most_common(limit)]


@task
def find_outliers(ctx: Any, load_orders: Orders) -> Orders:
    amounts = sorted(order["amount"] for order in load_orders)
    median = amounts[len(amounts) // 2]
    time.sleep(0.8)
    found = [order for order in load_orders if order["amount"] > 10 * median]
    print(f"{len(found)} orders are far above the median of {median}")
    rows = [f"{order['region']},{order['product']},{order['amount']}" for order in found]
    ctx.save_artifact("outliers.csv", "\n".join(["region,product,amount", *rows]))
    return found


@task
def build_report(revenue_by_region: dict[str, int], top_products: list[str], find_outliers: Orders) -> str:
    time.sleep(0.6)
    return "\n".join(
        [
            f"Revenue      {sum(revenue_by_region.values())}",
            *(f"  {region:10} {revenue}" for region, revenue in sorted(revenue_by_region.items())),
            f"Best sold    {', '.join(top_products)}",
            f"To look at   {len(find_outliers)} unusual orders",
        ]
    )


@task
def publish(build_report: str) -> str:
    time.sleep(0.4)
    print(build_report)
    return build_report


sales_report = (
    Flow("sales_report")
    >> load_orders
    >> [revenue_by_region, top_products, find_outliers]
    >> build_report
    >> publish
)
