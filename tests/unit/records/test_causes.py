"""The cause of a run, its start time, and statuses of a newer version."""

import msgspec
import pytest
from msgspec import UNSET, structs

from pyoco_server.records.runs.causes import Cause, CauseKind, cause_of
from pyoco_server.records.runs.run_models import (
    RerunMode,
    RunStatus,
    decode_job,
    decode_snapshot,
    encode,
    first_snapshot,
    job_of,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle.job_signatures import signature_of
from pyoco_server.runs.lifecycle.submission import new_job

BY_SCHEDULE = Cause(kind=CauseKind.SCHEDULE, id="nightly", at=1_800_000_000.0)


def test_a_run_without_a_stored_cause_was_submitted_or_is_a_rerun() -> None:
    assert str(cause_of(UNSET, None)) == "api"
    assert str(cause_of(UNSET, "some-run")) == "rerun:some-run"
    assert str(cause_of(BY_SCHEDULE, "some-run")) == "schedule:nightly"


def test_a_plain_run_takes_no_more_bytes_than_before() -> None:
    job = new_job(flow_name="f", tag="t")
    for encoded in (encode(job), encode(pending_snapshot(job))):
        assert b"cause" not in encoded
        assert b"start_at" not in encoded


def test_cause_and_start_time_pass_through_job_and_snapshot() -> None:
    job = new_job(flow_name="f", tag="t", cause=BY_SCHEDULE, start_at=1_800_000_001.0)
    snapshot = decode_snapshot(encode(pending_snapshot(decode_job(encode(job)))))
    assert (snapshot.cause, snapshot.start_at) == (BY_SCHEDULE, 1_800_000_001.0)
    assert job_of(snapshot, None) == job


def test_cause_and_start_time_are_signed() -> None:
    job = new_job(flow_name="f", tag="t", cause=BY_SCHEDULE, start_at=1_800_000_001)
    snapshot = pending_snapshot(job)
    signature = signature_of(snapshot, b"s")
    assert signature_of(decode_snapshot(encode(snapshot)), b"s") == signature
    for forged in (
        structs.replace(snapshot, start_at=UNSET),
        structs.replace(snapshot, start_at=1.0),
        structs.replace(snapshot, cause=UNSET),
        structs.replace(snapshot, cause=structs.replace(BY_SCHEDULE, id="other")),
    ):
        assert signature_of(forged, b"s") != signature


@pytest.mark.parametrize(
    ("start_at", "status"), [(UNSET, "PENDING"), (99.0, "PENDING"), (100.0, "PENDING"), (100.1, "SCHEDULED")]
)
def test_a_run_with_a_later_start_is_scheduled(start_at: float, status: str) -> None:
    job = new_job(flow_name="f", tag="t", start_at=start_at)
    assert first_snapshot(job, 100.0).status == status
    # What a worker claims is PENDING in any case.
    assert pending_snapshot(job).status == "PENDING"


def test_kinds_of_a_newer_version_are_kept() -> None:
    cause = msgspec.json.decode(b'{"kind": "webhook", "id": "x"}', type=Cause)
    assert (str(cause), cause.kind.known) == ("webhook:x", False)
    assert encode(cause) == b'{"kind":"webhook","id":"x"}'
    # As statuses are in upper case, kinds are in lower case.
    for kind, text in ((CauseKind, "API"), (RunStatus, "pending"), (CauseKind, "a b"), (RerunMode, "x")):
        with pytest.raises(ValueError, match="is not a valid"):
            kind(text)


def test_parked_is_what_waits_without_a_worker() -> None:
    assert {status for status in RunStatus if status.parked} == {"WAITING", "WAITING_HUMAN"}
    assert not RunStatus.SCHEDULED.terminal
