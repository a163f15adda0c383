"""The records of schedules: keys, defaults and decoding."""

import pytest

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.schedules.schedule_models import (
    ScheduleRecord,
    ScheduleSpec,
    decode_schedule,
    encode_schedule,
    is_schedule_id,
    schedule_key,
)


def _record(**fields: object) -> ScheduleRecord:
    base = {"schedule_id": "nightly", "incarnation": "i1", "created_at": 1.0, "updated_at": 1.0}
    rest = {"flow_name": "etl", "spec": ScheduleSpec(cron=["0 2 * * *"]), "cursor": 1.0}
    return ScheduleRecord(**{**base, **rest, **fields})  # type: ignore[arg-type]


def test_a_record_is_read_as_it_was_written() -> None:
    record = _record(params={"day": "today"}, tags=["etl"], remaining_runs=0)
    assert decode_schedule(encode_schedule(record)) == record


def test_fields_of_a_newer_version_are_ignored() -> None:
    data = encode_schedule(_record())
    assert decode_schedule(data.replace(b"{", b'{"later":1,', 1)) == _record()


def test_an_unknown_policy_makes_the_record_unreadable() -> None:
    with pytest.raises(UnreadableRecord, match="overlap"):
        decode_schedule(encode_schedule(_record()).replace(b"{", b'{"overlap":"sometimes",', 1))


def test_the_key_names_the_tenant() -> None:
    assert _record().key == "=.nightly"
    assert _record(tenant_id="acme").key == schedule_key("acme", "nightly") == "acme.nightly"


@pytest.mark.parametrize("text", ["", "a.b", "a b", "a\n", "*", "x" * 65])
def test_these_are_no_schedule_ids(text: str) -> None:
    assert not is_schedule_id(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (ScheduleSpec(every_sec=59), 60.0),
        (ScheduleSpec(every_sec=60), 3600.0),
        (ScheduleSpec(cron=["* * * * *"]), 3600.0),
    ],
)
def test_the_catch_up_window_follows_from_the_spec(spec: ScheduleSpec, expected: float) -> None:
    assert _record(spec=spec).window_sec == expected
    assert _record(spec=spec, catchup_window_sec=5).window_sec == 5
