"""Records of schedules for tests."""

from typing import Any

from pyoco_server.records.schedules.schedule_models import ScheduleRecord, ScheduleSpec


def a_schedule(schedule_id: str = "nightly", **fields: Any) -> ScheduleRecord:
    base: dict[str, Any] = {
        "incarnation": "i1",
        "created_at": 1.0,
        "updated_at": 1.0,
        "flow_name": "etl",
        "spec": ScheduleSpec(cron=["0 2 * * *"]),
        "cursor": 1.0,
    }
    return ScheduleRecord(schedule_id=schedule_id, **{**base, **fields})
