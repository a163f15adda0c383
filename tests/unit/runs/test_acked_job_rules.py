"""Whether a run needs a job that is not delivered any more."""

from typing import Any

import pytest
from msgspec import structs

from pyoco_server.records.runs.run_models import DeliveryId, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.sweep.exhausted_deliveries import is_job_of

RUN = pending_snapshot(new_job(flow_name="noop", tag="default"))


@pytest.mark.parametrize(
    ("fields", "is_needed"),
    [
        ({}, True),
        ({"status": RunStatus.RUNNING, "delivery": DeliveryId(7, 2)}, True),
        ({"status": RunStatus.RUNNING, "delivery": DeliveryId(9, 1)}, False),
        ({"status": RunStatus.COMPLETED, "delivery": DeliveryId(7, 1)}, False),
        ({"status": RunStatus.CANCELLED}, False),
        ({"status": RunStatus.RUNNING, "delivery": DeliveryId(7, 1), "generation": 1}, False),
        ({"generation": 1}, False),
    ],
    ids=["not started", "its delivery", "later delivery", "ended", "cancelled", "has waited", "continued"],
)
def test_only_the_current_job_of_an_open_run_is_needed(fields: dict[str, Any], is_needed: bool) -> None:
    assert is_job_of(7, 0, structs.replace(RUN, **fields)) is is_needed
