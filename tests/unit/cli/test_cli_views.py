"""What a person sees of a run in a table."""

import io
import time
from typing import Any

import pytest
from rich.console import Console, RenderableType

from pyoco_server.cli.views.run_views import ended_run_view, run_view, tasks_view

RUN: dict[str, Any] = {
    "run_id": "00000000-0000-4000-8000-000000000000",
    "flow_name": "report",
    "params": {},
    "tasks": {},
    "tag": "default",
    "tags": ["default"],
    "worker_id": "w2",
    "attempt": 1,
}
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'


def shown(view: RenderableType) -> str:
    screen = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    screen.print(view)
    assert isinstance(screen.file, io.StringIO)
    return "\n".join(line.rstrip() for line in screen.file.getvalue().splitlines())


def run(status: str, *, silent_sec: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {**RUN, "status": status, "heartbeat_at": time.time() - silent_sec, **fields}


def row(name: str, text: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(f"{name} ")), "")


def shown_task(**record: Any) -> str:
    answer = {**RUN, "status": "FAILED", "tasks": {"step": "FAILED"}, "task_records_truncated": False}
    return shown(tasks_view({**answer, "task_records": {"step": record}}))


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_the_worker_of_an_ended_run_may_be_gone(status: str) -> None:
    text = shown(run_view(run(status, silent_sec=3600, worker_alive=False)))
    assert row("worker", text).split() == ["worker", "w2"]


@pytest.mark.parametrize("status", ["RUNNING", "CANCELLING"])
def test_a_run_without_its_worker_waits_to_be_taken_over(status: str) -> None:
    text = shown(run_view(run(status, worker_alive=False)))
    assert "w2 (not alive; the run waits for another worker)" in text


def test_a_run_that_is_silent_though_its_worker_lives_waits_to_be_taken_over() -> None:
    text = shown(run_view(run("RUNNING", silent_sec=45, worker_alive=True)))
    assert "w2 (no heartbeat for 45 s; the run waits for another worker)" in text


@pytest.mark.parametrize("alive", [True, None])
def test_a_run_that_goes_on_shows_its_worker_alone(alive: bool | None) -> None:
    text = shown(run_view(run("RUNNING", silent_sec=2, worker_alive=alive)))
    assert row("worker", text).split() == ["worker", "w2"]


def test_only_a_second_attempt_is_worth_a_row() -> None:
    assert row("attempt", shown(run_view(run("RUNNING", attempt=1)))) == ""
    assert row("attempt", shown(run_view(run("RUNNING", attempt=3)))).split() == ["attempt", "3"]


@pytest.mark.parametrize(
    ("error", "last_lines", "expected"),
    [
        ("it broke", "ValueError: it broke\n", "ValueError: it broke"),
        ("", "AssertionError\n", "AssertionError"),
        ("a\nb: c", "my.pkg.Odd: a\nb: c\n", "my.pkg.Odd: a"),
        ("ValueError: it broke", "ValueError: it broke\n", "ValueError: it broke"),
        ("cut off", None, "cut off"),
        ("cut off", {"truncated": True, "bytes": 9000, "preview": "Trace"}, "cut off"),
    ],
)
def test_an_error_is_shown_with_its_type(error: str, last_lines: object, expected: str) -> None:
    trace = TRACEBACK + last_lines if isinstance(last_lines, str) else last_lines
    line = row("step", shown_task(error=error, traceback=trace, duration_ms=1500.0))
    assert line.split(maxsplit=4) == ["step", "FAILED", "1.5", "s", expected]


def test_the_end_of_what_a_task_printed_is_shown() -> None:
    printed = "".join(f"line {number}\n" for number in range(9)) + "y" * 500 + "\n"
    text = shown_task(output={"a": 1}, stdout=printed)
    assert '{"a": 1}' in text
    assert "line 5" not in text
    for line in ("| …", "| line 7", "| line 8", f"| {'y' * 120}… (500 characters)"):
        assert line in text


def test_what_a_task_printed_may_have_been_cut_away() -> None:
    text = shown_task(output=1, stdout={"truncated": True, "bytes": 9000, "preview": '"abc'})
    assert "Result / output" in text
    assert "abc" not in text


def test_tasks_stay_in_the_order_of_the_answer() -> None:
    tasks = {"zeta": "SUCCEEDED", "alpha": "SUCCEEDED"}
    records = {"alpha": {"started_at": 1.0}, "zeta": {"started_at": 2.0}}
    answer = {**RUN, "status": "COMPLETED", "tasks": tasks, "task_records": records}
    text = shown(tasks_view({**answer, "task_records_truncated": False}))
    assert text.index("zeta") < text.index("alpha")


def test_an_ended_run_shows_what_its_last_tasks_returned() -> None:
    records = {
        "load": {"started_at": 1.0, "ended_at": 2.0, "output": "raw"},
        "sum": {"started_at": 2.1, "ended_at": 4.0, "output": {"total": 5}},
        "draw": {"started_at": 2.2, "ended_at": 2.3, "output": None},
        "mail": {"started_at": 2.2, "ended_at": 3.0, "output": "x" * 999},
    }
    tasks = dict.fromkeys(records, "SUCCEEDED")
    text = shown(ended_run_view(run("COMPLETED", tasks=tasks, task_records=records)))
    assert row("sum returned", text).endswith('{"total": 5}')
    assert "… (1001 characters)" in text
    assert "load returned" not in text
    assert "draw returned" not in text
