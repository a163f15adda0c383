"""The list of unreadable records: what is logged, what counts, and how much is kept."""

import logging
import time

import pytest

from pyoco_server.records import unreadable_records
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.unreadable_records import RecordKind, UnreadableRecords


def test_each_revision_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    known, run_id = UnreadableRecords(), new_run_id()
    with caplog.at_level(logging.ERROR):
        for revision in (1, 1, 2, 2, 2):
            known.add(RecordKind.RUN, run_id, revision, "it is broken")
        known.add(RecordKind.RUN, new_run_id(), 3, "known from an earlier start", logged=True)
    assert len(caplog.records) == 2
    line = caplog.records[0].__dict__
    assert (line["err_id"], line["run_id"], line["record_kind"]) == ("ERR-PYOCO-0045", run_id, "run")
    assert known.counts()[RecordKind.RUN] == 2


def test_a_record_that_can_be_read_again_counts_no_more() -> None:
    known = UnreadableRecords()
    known.add(RecordKind.RUN, "a", 1, "broken")
    known.add(RecordKind.WAIT, "a", 1, "broken")
    known.remove(RecordKind.RUN, "a")
    known.remove(RecordKind.RUN, "b")
    known.add(RecordKind.WAIT, "b", 5, "broken")
    known.remove(RecordKind.WAIT, "b", older_than=5)
    assert known.find(RecordKind.WAIT, "b") is not None
    known.remove(RecordKind.WAIT, "b", older_than=6)
    assert [entry.kind for entry in known.newest(10)] == [RecordKind.WAIT]
    known.clear(RecordKind.WAIT)
    assert not any(known.counts().values())


def test_what_no_feed_follows_counts_for_an_hour_after_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    known = UnreadableRecords()
    for kind in (RecordKind.RUN, RecordKind.WORKER, RecordKind.LOG):
        known.add(kind, "a", 1, "broken")
    now[0] = 3000.0
    known.add(RecordKind.WORKER, "a", 1, "broken")
    now[0] = 4000.0
    counts = known.counts()
    assert (counts[RecordKind.RUN], counts[RecordKind.WORKER], counts[RecordKind.LOG]) == (1, 1, 0)


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreadable_records, "MAX_KNOWN", 3)
    known = UnreadableRecords()
    for number in range(5):
        known.add(RecordKind.RUN, str(number), 1, "broken")
    assert known.counts()[RecordKind.RUN] == 3
    assert {entry.key for entry in known.newest(10)} == {"2", "3", "4"}
