"""What a stored record must be to be read."""

import json
from typing import Any

import msgspec
import pytest

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import owner_in
from pyoco_server.records.nesting import MAX_RECORD_NESTING
from pyoco_server.records.runs.run_models import RunStatus, TaskStatus, decode_snapshot
from tests.support.broker.stored_runs import ended
from tests.support.samples.broken_records import with_field

RUN: dict[str, Any] = json.loads(msgspec.json.encode(ended(tenant_id="acme")))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("status", b'"<script>"', "Invalid enum value"),
        ("status", b"null", "Expected `str`"),
        ("tasks", b'{"a": "ok"}', "Invalid enum value"),
        ("tag", b'"a.b"', "matching regex"),
        ("updated_at", b"1e300", "Expected `float` <"),
        ("updated_at", b"-1e300", "Expected `float` >="),
        ("updated_at", b"1e999", "out of range"),
        ("updated_at", b"NaN", "malformed"),
        ("attempt", b"-1", "Expected `int` >= 0"),
        ("attempt", b"1" + b"0" * 40, "Expected `int` <="),
        ("error", b'"\\ud800 and more"', "surrogate"),
        ("error", b'"\xff"', "can't decode byte 0xff"),
        ("unknown", b'"\xff"', "can't decode byte 0xff"),
        ("task_records", b'{"a": "\xff"}', "can't decode byte 0xff"),
        ("task_records", b'{"a": }', "malformed"),
        ("params", b"[]", "Expected `object`"),
        ("params", b'{"a":' * 600 + b"1" + b"}" * 600, f"nested more than {MAX_RECORD_NESTING} deep"),
        ("unknown", b"[" * 5_000 + b"]" * 5_000, f"nested more than {MAX_RECORD_NESTING} deep"),
    ],
)
def test_a_broken_snapshot_is_unreadable(name: str, value: bytes, problem: str) -> None:
    data = with_field(RUN, name, value)
    with pytest.raises(UnreadableRecord) as unreadable:
        decode_snapshot(data)
    assert problem in unreadable.value.detail
    assert len(unreadable.value.detail) <= 201


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"text", b"\xff", b"{" * 5_000])
def test_what_is_no_snapshot_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_snapshot(data)


def test_a_record_as_deep_as_it_may_be_can_be_read() -> None:
    levels = MAX_RECORD_NESTING - 2
    params = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    assert decode_snapshot(with_field(RUN, "params", params)).params


def test_a_status_of_a_newer_version_is_kept() -> None:
    data = with_field({**RUN, "tasks": {"a": "SKIPPED"}}, "status", b'"SLEEPING"')
    snapshot = decode_snapshot(data)
    assert (snapshot.status, snapshot.status.known, snapshot.status.terminal) == ("SLEEPING", False, False)
    assert (snapshot.tasks["a"], snapshot.tasks["a"].known) == ("SKIPPED", False)
    assert json.loads(msgspec.json.encode(snapshot))["status"] == "SLEEPING"
    assert all(status.known for status in (*RunStatus, *TaskStatus))


def test_the_tenant_of_a_broken_record_is_found_if_it_can_be() -> None:
    assert owner_in(with_field(RUN, "status", b"5")) == "acme"
    assert owner_in(with_field(RUN, "status", b"[" * 5_000)) is None
    assert owner_in(b"\xff") is None
