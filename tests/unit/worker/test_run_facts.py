"""`ctx.run`: a task sees which run it belongs to, and what has started it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyoco import Flow, task

from pyoco_server.records.runs.causes import Cause, CauseKind
from tests.support.running.flow_runs import FlowUnderTest, outputs

AT = 1_800_000_000.0


@task
def look(ctx: Any) -> Any:
    due = ctx.run.scheduled_for
    return [ctx.run.run_id, ctx.run.flow_name, ctx.run.cause, ctx.run.cause_id, due and due.isoformat()]


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (None, ["api", None, None]),
        (Cause(kind=CauseKind.RERUN, id="other"), ["rerun", "other", None]),
        (
            Cause(kind=CauseKind.SCHEDULE, id="nightly", at=AT),
            ["schedule", "nightly", datetime.fromtimestamp(AT, UTC).isoformat()],
        ),
    ],
)
def test_a_task_sees_what_has_started_its_run(cause: Cause | None, expected: list[Any]) -> None:
    found = outputs(FlowUnderTest(Flow(name="f") >> look).execute(cause=cause))
    assert found == {"look": ["r", "f", *expected]}


def test_a_flow_may_have_its_own_attribute_of_that_name() -> None:
    @task
    def assign(ctx: Any) -> None:
        ctx.run = "mine"

    @task
    def read(ctx: Any) -> Any:
        return ctx.run

    found = outputs(FlowUnderTest(Flow(name="f") >> assign >> read).execute())
    assert found["read"] == "mine"
