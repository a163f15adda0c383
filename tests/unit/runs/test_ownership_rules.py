"""Merging an owner's snapshot with the stored one, for every combination of statuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pyoco_server.records.runs.run_models import DeliveryId, RunSnapshot, RunStatus, pending_snapshot
from pyoco_server.runs.lifecycle.ownership import RunEnded, RunTaken, apply_cancel, merge
from pyoco_server.runs.lifecycle.submission import new_job

statuses = st.sampled_from(list(RunStatus))


def some_snapshot(status: RunStatus, cancelled: bool, delivery: tuple[int, int]) -> RunSnapshot:
    base = pending_snapshot(new_job(flow_name="f", tag="t"))
    return structs.replace(
        base, status=status, cancel_requested_at=1.0 if cancelled else None, delivery=DeliveryId(*delivery)
    )


@given(mine=statuses, stored=statuses, cancelled=st.booleans(), same_owner=st.booleans())
def test_merging_never_revives_never_steals_never_forgets_a_cancel(
    mine: RunStatus, stored: RunStatus, cancelled: bool, same_owner: bool
) -> None:
    my_snapshot = some_snapshot(mine, False, (1, 1))
    theirs = some_snapshot(stored, cancelled, (1, 1) if same_owner else (1, 2))
    if stored.terminal:
        with pytest.raises(RunEnded):
            merge(my_snapshot, theirs)
    elif not same_owner:
        with pytest.raises(RunTaken):
            merge(my_snapshot, theirs)
    else:
        merged = merge(my_snapshot, theirs)
        assert not merged.status.terminal
        assert (merged.cancel_requested_at is not None) == cancelled


@given(status=statuses, cancelled=st.booleans())
def test_settling_is_idempotent_and_ends_a_cancelled_run_as_cancelled(
    status: RunStatus, cancelled: bool
) -> None:
    settled = apply_cancel(some_snapshot(status, cancelled, (1, 1)))
    assert apply_cancel(settled) == settled
    assert settled.status.terminal == status.terminal
    if cancelled:
        assert settled.status in {RunStatus.CANCELLING, RunStatus.CANCELLED}
