"""Flows that are good to look at: branches, loops, retries, many tasks, and much that is printed."""

import sys
import time
from pathlib import Path
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper


def _linked(flow: Flow, tasks: list[Task], *lines: tuple[Task, Task]) -> Flow:
    for before, after in lines:
        before.dependents.add(after)
        after.dependencies.add(before)
    for each in tasks:
        flow.add_task(each)
    return flow


def extract(day: str = "2026-11-14") -> dict[str, Any]:
    for number in range(1, 5):
        print(f"INFO read page {number} of orders for {day}")
    return {"day": day, "orders": 1204, "currency": "EUR"}


def check_stock(extract: dict[str, Any]) -> list[str]:
    print("WARNING: 2 articles are not in stock", file=sys.stderr)
    return ["A-17", "C-04"]


def clean(extract: dict[str, Any]) -> int:
    print("dropped 12 duplicates")
    return int(extract["orders"]) - 12


_tries: dict[str, int] = {}


def rates(ctx: Any, flaky: bool = False) -> dict[str, float]:
    run_id = ctx.run_context.run_id
    _tries[run_id] = _tries.get(run_id, 0) + 1
    if flaky and _tries[run_id] < 3:
        raise ConnectionError("rates.example did not answer")
    return {"USD": 1.09, "JPY": 163.2}


def join(ctx: Any, release: str | None = None) -> dict[str, float]:
    """Waits until the file is there, if one is named."""
    print("joining orders and rates")
    while release is not None and not Path(release).exists():
        if ctx.is_cancelled:
            raise RuntimeError("stopped because of a cancel")
        time.sleep(0.01)
    return {"revenue": 48210.5}


def report(join: dict[str, float]) -> str:
    print("ERROR: no template 'weekly', took 'daily'")
    return f"revenue {join['revenue']:.2f}"


def notify(report: str, fails: bool = False) -> None:
    if fails:
        raise LookupError("no such channel: #sales-reports")
    print(f"sent: {report}")


def _sales() -> Flow:
    tasks = {
        function.__name__: Task(func=function, name=function.__name__)
        for function in (extract, check_stock, clean, rates, join, report, notify)
    }
    tasks["rates"].retries = 3
    one = tasks.__getitem__
    return _linked(
        Flow("sales"),
        list(tasks.values()),
        (one("extract"), one("check_stock")),
        (one("extract"), one("clean")),
        (one("clean"), one("join")),
        (one("rates"), one("join")),
        (one("join"), one("report")),
        (one("check_stock"), one("notify")),
        (one("report"), one("notify")),
    )


sales = _sales()


def payment(ctx: Any) -> int:
    return int(ctx.wait_for_signal("paid")["amount"])


def cooling_off(ctx: Any) -> None:
    ctx.sleep(7200)


def _order() -> Flow:
    """Waits for a signal, and sleeps for two hours beside it."""
    tasks = [Task(func=each, name=each.__name__) for each in (extract, payment, cooling_off)]
    first, *later = tasks
    return _linked(Flow("order"), tasks, *((first, each) for each in later))


order = _order()


def _layers(name: str, count: int, width: int) -> Flow:
    """Layers of tasks, each depending on one or two of the layer before."""
    tasks = [Task(func=lambda: None, name=f"step_{number:04}") for number in range(count)]
    lines = [(tasks[max(number - width, 0)], tasks[number]) for number in range(1, count)]
    lines += [(tasks[number - width - 1], tasks[number]) for number in range(width + 1, count, 3)]
    return _linked(Flow(name), tasks, *lines)


thousand = _layers("thousand", 1000, 25)
beside = _linked(Flow("beside"), [Task(func=lambda: None, name=f"part_{number}") for number in range(30)])


def batch(ctx: Any) -> int:
    print(f"batch {ctx.loop.index}")
    return int(ctx.loop.index)


def prepare() -> None: ...


def finish() -> None: ...


batches = (
    Flow("batches")
    >> TaskWrapper(Task(func=prepare, name="prepare"))
    >> TaskWrapper(Task(func=batch, name="batch"))[4]
    >> TaskWrapper(Task(func=finish, name="finish"))
)


def chatter(release: str, lines: int = 3000) -> None:
    for number in range(lines):
        print(f"line {number} of a long story")
    while not Path(release).exists():
        time.sleep(0.01)
    print("the end of the story")


chattering = Flow("chattering") >> TaskWrapper(Task(func=chatter, name="chatter"))
