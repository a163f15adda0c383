"""What is held of the jobs in the queue."""

from types import SimpleNamespace
from typing import Any, cast

from pyoco_server.broker.queue.queued_runs import QueuedRuns


def test_a_run_that_others_know_is_held_by_their_string() -> None:
    known = {"run-1": "run-1"}
    config = SimpleNamespace(work_stream="WORK", work_subject_prefix="work")
    queued = QueuedRuns(cast(Any, SimpleNamespace(config=config)), shared_id=lambda run_id: known[run_id])
    queued.add("".join(["run", "-1"]), "work.default", generation=3)
    assert queued.is_queued("run-1", min_generation=3)
    [held] = queued._jobs
    assert held is known["run-1"]
