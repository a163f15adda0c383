"""The table of field ownership names every field of a snapshot, and merge follows it."""

from msgspec import UNSET, structs

from pyoco_server.records.runs.run_models import Job, OpenWait, RunSnapshot, pending_snapshot
from pyoco_server.runs.lifecycle.field_ownership import OWNERS, FieldOwner, fields_of
from pyoco_server.runs.lifecycle.ownership import merge
from pyoco_server.runs.lifecycle.submission import new_job


def test_every_field_of_a_snapshot_has_one_owner() -> None:
    assert set(OWNERS) == set(RunSnapshot.__struct_fields__)
    listed = [name for owner in FieldOwner for name in fields_of(owner)]
    assert sorted(listed) == sorted(RunSnapshot.__struct_fields__)


def test_what_the_job_says_is_accepted_except_what_a_run_changes() -> None:
    in_both = set(Job.__struct_fields__) & set(RunSnapshot.__struct_fields__)
    assert set(fields_of(FieldOwner.SUBMIT)) == in_both - {"generation", "signature"}


def test_merge_takes_what_is_the_gateways_and_nothing_else() -> None:
    mine = pending_snapshot(new_job(flow_name="f", tag="t"))
    wait = OpenWait(wait_id="w", task="t", name="n", message="m", deadline_at=1.0)
    changed = {
        "cancel_requested_at": 5.0,
        "cancel_reason": "why",
        "cancel_force": True,
        "open_waits": [wait],
        "signature": "s",
        "error": "not a gateway's",
        "worker_id": "other",
        "start_at": 7.0,
    }
    merged = merge(mine, structs.replace(mine, **changed))
    for name, value in changed.items():
        expected = value if OWNERS[name] is FieldOwner.GATEWAY else getattr(mine, name)
        assert getattr(merged, name) == expected
    assert (merged.error, merged.worker_id, merged.start_at) == (None, None, UNSET)
