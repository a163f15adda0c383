"""Views of runs, waits, workers and schedules, rendered as on a terminal."""

import io
import time
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from pyoco_server.cli.commands.runs.watch_command import _most_important
from pyoco_server.cli.commands.waits.waits_command import Inbox
from pyoco_server.cli.commands.workers.workers_command import worker_view
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.list_views import runs_view
from pyoco_server.cli.views.run_views import NewQuestions, ended_run_view, run_view, tasks_view
from pyoco_server.cli.views.schedule_views import schedule_view
from tests.support.broker.worker_records import a_record

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


NOT_ALIVE = "w2 (not alive; the run waits for another worker)"


@pytest.mark.parametrize(
    ("status", "silent_sec", "alive", "expected"),
    [
        *((status, 3600, False, "w2") for status in ("COMPLETED", "FAILED", "CANCELLED")),
        *((status, 0, False, NOT_ALIVE) for status in ("RUNNING", "CANCELLING")),
        ("RUNNING", 45, True, "w2 (no heartbeat for 45s; the run waits for another worker)"),
        ("RUNNING", 2, True, "w2"),
        ("RUNNING", 2, None, "w2"),
    ],
)
def test_a_run_in_progress_shows_when_it_may_have_lost_its_worker(
    status: str, silent_sec: float, alive: bool | None, expected: str
) -> None:
    text = shown(run_view(run(status, silent_sec=silent_sec, worker_alive=alive)))
    assert row("worker", text).split(maxsplit=1) == ["worker", expected]


def test_what_has_started_a_run_is_shown() -> None:
    by = {"kind": "schedule", "id": "nightly", "at": 1_800_000_000.0}
    text = shown(run_view(run("COMPLETED", cause=by)))
    assert "schedule nightly, for 2027-01-1" in row("started by", text)
    assert "started by" not in shown(run_view(run("COMPLETED", cause={"kind": "api"})))
    assert "2027-01-1" in row("starts at", shown(run_view(run("SCHEDULED", start_at=1_800_000_000.0))))


def test_a_list_shows_when_a_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    later: Any = run("SCHEDULED", start_at=1_800_000_000.0, error=None, updated_at=1.0)
    assert "starts at 2027-01-1" in shown(runs_view([later]))


@pytest.mark.parametrize(
    ("width", "expected"),
    [(80, "Run Status Flow Took Changed"), (60, "Run Status Flow Took"), (50, "Run Status"), (40, "Run")],
)
def test_a_narrow_list_omits_columns_and_cuts_off_no_id(
    monkeypatch: pytest.MonkeyPatch, width: int, expected: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    run_id = "44f38d5a-592e-466c-a13b-b54e10af6e7a"
    item: Any = run("COMPLETED", duration_sec=61.5, error=None, updated_at=1.0)
    item |= {"run_id": run_id, "flow_name": "etl"}
    screen = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    with screen.capture() as captured:
        screen.print(runs_view([item]))
    header, row_text = captured.get().splitlines()
    assert header.split() == expected.split()
    assert run_id in row_text.split()


def test_a_list_that_is_narrower_than_an_id_wraps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    item: Any = run("COMPLETED", error=None, updated_at=1.0) | {
        "run_id": "44f38d5a-592e-466c-a13b-b54e10af6e7a"
    }
    screen = Console(file=io.StringIO(), width=20, highlight=False, markup=False)
    with screen.capture() as captured:
        screen.print(runs_view([item]))
    assert captured.get().replace("\n", "").replace(" ", "") == f"Run{item['run_id']}"


def test_the_attempt_is_shown_from_the_second_one_on() -> None:
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
    assert line.split(maxsplit=3) == ["step", "FAILED", "1.5s", expected]


def test_the_end_of_what_a_task_printed_is_shown() -> None:
    printed = "".join(f"line {number}\n" for number in range(9)) + "y" * 500 + "\n"
    text = shown_task(output={"a": 1}, stdout=printed)
    assert '{"a": 1}' in text
    assert "line 5" not in text
    for line in ("| …", "| line 7", "| line 8", f"| {'y' * 120}… (500 characters)"):
        assert line in text


def test_output_that_was_not_stored_is_not_shown() -> None:
    text = shown_task(output=1, stdout={"truncated": True, "bytes": 9000, "preview": '"abc'})
    assert "Result / output" in text
    assert "abc" not in text


def test_a_number_that_json_does_not_have_is_named() -> None:
    marks = {"output": None, "not_json": ["output: NaN"]}
    assert "JSON does not have: output: NaN" in shown_task(**marks)
    records = {"mean": {"started_at": 1.0, "ended_at": 2.0, **marks}}
    text = shown(ended_run_view(run("COMPLETED", tasks={"mean": "SUCCEEDED"}, task_records=records)))
    assert row("mean returned", text).endswith("JSON does not have: output: NaN")


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


WAIT_ITEM: dict[str, Any] = {
    "run_id": RUN["run_id"],
    "state": "open",
    "flow_name": "f",
    "task": "t",
    "assignees": [],
    "deadline_at": 0.0,
    "decided_at": None,
}


def test_the_inbox_drops_closed_waits() -> None:
    inbox = Inbox()
    first, second = (WAIT_ITEM | {"wait_id": name, "message": name} for name in ("one", "two"))
    assert shown(inbox.render()) == "Connecting ..."
    inbox.apply({"event": "open", "id": "1", "waits": [first]})  # type: ignore[list-item]
    inbox.apply({"event": "opened", "id": "2", "wait": second})  # type: ignore[typeddict-item]
    assert all(name in shown(inbox.render()) for name in ("one", "two"))
    inbox.apply({"event": "closed", "id": "3", "wait": first})  # type: ignore[typeddict-item]
    assert "one" not in shown(inbox.render())
    inbox.apply({"event": "open", "id": "4", "waits": []})
    assert shown(inbox.render()) == "(none)"


def open_wait(name: str, message: str = "?") -> dict[str, Any]:
    return {
        "wait_id": f"{RUN['run_id']}.{name}",
        "task": name,
        "message": message,
        "deadline_at": time.time() + 60,
    }


def test_a_question_is_reported_once_and_with_its_id_if_there_are_several() -> None:
    questions, one, two = NewQuestions(), open_wait("a"), open_wait("b")
    waiting = run("WAITING_HUMAN", open_waits=[one])
    assert list(questions.lines(waiting))[1] == f"  answer with: pyoco-client resume {RUN['run_id']}"
    assert list(questions.lines(waiting)) == []
    later = list(questions.lines(run("WAITING_HUMAN", open_waits=[one, two])))
    assert later[0].startswith("b asks: ?")
    assert later[1].endswith(f"resume --wait-id {RUN['run_id']}.b")
    assert list(NewQuestions().lines(run("RUNNING", open_waits=[one]))) == []
    # Queued again after an answer, with another question open, and with none.
    assert next(NewQuestions().lines(run("PENDING", open_waits=[two]))).startswith("b asks: ?")
    assert list(NewQuestions().lines(run("PENDING", open_waits=[]))) == []


def test_control_characters_are_replaced() -> None:
    assert printable("a\tb\nc\x1b[31m\x9b\x07") == "a\tb\nc\ufffd[31m\ufffd\ufffd"
    wait = open_wait("t", "\x1b]0;owned\x07")
    waiting: Any = run(
        "WAITING_HUMAN", open_waits=[wait], wait_message=wait["message"], error=None, updated_at=1.0
    )
    assert "\x1b" not in shown(run_view(waiting)) + shown(runs_view([waiting]))


TWO_WHEELS = [{"package": "a", "version": "1"}, {"package": "b", "version": "2"}]


@pytest.mark.parametrize(
    ("wheels", "rows"),
    [
        (None, []),
        ({"enabled": False}, []),
        (
            {"enabled": True, "last_result": "ok", "error": None, "installed_wheels": []},
            ["ok: none installed"],
        ),
        (
            {"enabled": True, "last_result": "error", "error": "no room", "installed_wheels": TWO_WHEELS},
            ["error: a 1, b 2", "no room"],
        ),
    ],
    ids=["never synchronised", "disabled", "none", "error"],
)
def test_a_worker_is_shown_with_its_wheels(wheels: dict[str, Any] | None, rows: list[str]) -> None:
    worker: Any = msgspec.to_builtins(a_record("w", seen_at=0.0)) | {"draining": False, "wheel_sync": wheels}
    lines = shown(worker_view(worker)).splitlines()
    assert [line.split("  ", 1)[1].strip() for line in lines if line.startswith("wheel")] == rows


def test_running_and_failed_tasks_are_shown_when_not_all_fit() -> None:
    tasks = {f"t{number}": "SUCCEEDED" for number in range(50)}
    tasks |= {"t3": "FAILED", "t20": "RUNNING"} | {f"t{number}": "PENDING" for number in range(21, 50)}
    assert _most_important(tasks, 5) == ["t3", "t18", "t19", "t20", "t21"]
    assert _most_important(tasks, 100) == list(tasks)
    assert _most_important({"a": "SUCCEEDED", "b": "SUCCEEDED"}, 1) == ["b"]


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        ({"count": 1_000, "at_least": True}, "missed (1,000+ occurrences)"),
        ({"count": 1_440, "at_least": False}, "missed (1,440 occurrences)"),
        ({"count": 2}, "missed (2 occurrences)"),
    ],
)
def test_a_count_of_occurrences_says_when_there_may_be_more(passed: dict[str, Any], text: str) -> None:
    assert decision_row({"outcome": "missed", "scheduled_for": 0.0, **passed}).endswith(text)


def test_the_id_of_a_dropped_start_does_not_look_like_that_of_a_run() -> None:
    skipped = {"outcome": "skipped", "scheduled_for": 0.0, "reason": "replaced"}
    assert decision_row({**skipped, "run_id": "a"}).endswith("skipped a: replaced")
    assert decision_row({**skipped, "dropped_run_id": "b"}).endswith("skipped (no run b): replaced")
    assert decision_row(skipped).endswith("skipped: replaced")


def decision_row(decision: dict[str, Any]) -> str:
    schedule: Any = {
        **{"schedule_id": "nightly", "flow_name": "report", "spec": {"every_sec": 60}, "overlap": "skip"},
        **{"workflow_yaml": None, "params": {}, "tag": "default", "tags": [], "timeout_sec": None},
        **{"remaining_runs": None, "paused": False, "note": "", "revision": 1, "next_times": []},
        "decisions": [decision],
    }
    return row("decision", shown(schedule_view(schedule)))
