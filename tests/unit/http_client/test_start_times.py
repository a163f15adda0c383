"""The start of a run, as both clients send it."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pyoco_server.http_client.runs.run_calls import rerun, submit_run, submit_run_yaml

RUN_ID = "00000000-0000-4000-8000-000000000000"
MORNING = datetime(2027, 1, 31, 9, tzinfo=timezone(timedelta(hours=9)))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"start_at": MORNING}, {"start_at": "2027-01-31T09:00:00+09:00"}),
        ({"start_at": datetime(2027, 1, 31, tzinfo=UTC)}, {"start_at": "2027-01-31T00:00:00+00:00"}),
        ({"start_at": "2027-01-31T09:00:00Z"}, {"start_at": "2027-01-31T09:00:00Z"}),
        ({"start_at": 1_800_000_000}, {"start_at": 1_800_000_000}),
        ({"delay_sec": 90}, {"delay_sec": 90}),
        ({}, {}),
    ],
)
def test_a_start_is_sent_as_it_is_given(given: dict[str, Any], sent: dict[str, Any]) -> None:
    for request in (submit_run("f", **given), submit_run_yaml("x", "f", **given), rerun(RUN_ID, **given)):
        fields = {**(request.json or {}), **(request.form or {})}
        assert {name: fields[name] for name in ("start_at", "delay_sec") if name in fields} == sent
