"""The stored journal of a run."""

from hashlib import sha256

import msgspec
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import new_run_id

pytestmark = pytest.mark.asyncio(loop_scope="module")

YAML = "version: 1 # あ"


@pytest.fixture
def journal(shared_connection: Connection) -> Journal:
    return Journal(shared_connection)


def entry(key: str, *, attempt: int = 1, output: bytes = b"1") -> JournalEntry:
    return JournalEntry(
        key=key, task=key.partition("|")[0], attempt=attempt, started_at=1.0, ended_at=2.0, output=output
    )


async def test_entries_are_read_in_write_order(journal: Journal) -> None:
    run_id = new_run_id()
    written = [entry(f"t{number}||0") for number in range(1200)]
    for each in written:
        await journal.append("default", run_id, each)
    await journal.append("default", new_run_id(), entry("other||0"))
    assert await journal.entries("default", run_id) == written


async def test_an_entry_larger_than_a_message_is_read_whole(journal: Journal) -> None:
    run_id = new_run_id()
    large = entry("big||0", output=bytes(range(256)) * 20_000)
    await journal.append("default", run_id, large)
    assert await journal.entries("default", run_id) == [large]


async def test_the_entry_of_the_latest_attempt_counts(journal: Journal) -> None:
    run_id = new_run_id()
    for attempt, output in ((1, b"old"), (2, b"new"), (1, b"late word of a worker that was fenced")):
        await journal.append("default", run_id, entry("t||0", attempt=attempt, output=output))
    assert [each.output for each in await journal.entries("default", run_id)] == [b"new"]


async def test_a_copy_outlives_its_original(journal: Journal) -> None:
    origin, copy = new_run_id(), new_run_id()
    await journal.keep_document("default", origin, YAML.encode())
    await journal.append("default", origin, entry("t||0"))
    await journal.append("default", origin, entry("big||0", output=b"x" * 2_000_000))
    await journal.copy("default", origin, copy)
    await journal.remove(origin)
    assert await journal.entries("default", origin) == []
    assert await journal.document("default", origin, sha256(YAML.encode()).hexdigest()) is None
    assert [each.key for each in await journal.entries("default", copy)] == ["t||0", "big||0"]


async def test_a_copy_of_a_copy_has_only_adopted_entries(journal: Journal) -> None:
    origin, rerun, second_rerun = new_run_id(), new_run_id(), new_run_id()
    await journal.append("default", origin, entry("used||0", attempt=3))
    await journal.append("default", origin, entry("stale||0", attempt=3))
    await journal.copy("default", origin, rerun)
    assert [(each.key, each.attempt) for each in await journal.entries("default", rerun)] == [
        ("used||0", 0),
        ("stale||0", 0),
    ]
    await journal.append("default", rerun, entry("used||0", attempt=1, output=b"own"))
    await journal.copy("default", rerun, second_rerun)
    assert [
        (each.key, each.attempt, each.output) for each in await journal.entries("default", second_rerun)
    ] == [("used||0", 0, b"own")]


async def test_a_copy_has_no_results_of_a_fenced_worker(journal: Journal) -> None:
    origin, rerun = new_run_id(), new_run_id()
    await journal.append("default", origin, entry("t||0", attempt=2, output=b"owner"))
    await journal.append("default", origin, entry("t||0", attempt=1, output=b"fenced"))
    await journal.copy("default", origin, rerun)
    assert [each.output for each in await journal.entries("default", rerun)] == [b"owner"]


async def test_an_undecodable_entry_is_ignored(
    shared_connection: Connection, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = new_run_id()
    await publish_acked(shared_connection, f"pyoco.journal.default.{run_id}", b"\xc1 none")
    await journal.append("default", run_id, entry("t||0"))
    assert [each.key for each in await journal.entries("default", run_id)] == ["t||0"]
    assert "A stored record cannot be read: journal " in caplog.text


@pytest.mark.parametrize("part", ["0", "nonsense", "x 0", "x -1 2", "x 0 999999999999", "x one two"])
async def test_a_malformed_part_is_ignored(
    journal: Journal, shared_connection: Connection, part: str
) -> None:
    run_id = new_run_id()
    await publish_acked(shared_connection, f"pyoco.journal.default.{run_id}", b"x", {"Pyoco-Part": part})
    await journal.append("default", run_id, entry("t||0"))
    assert [each.key for each in await journal.entries("default", run_id)] == ["t||0"]


async def test_a_journal_is_of_one_tag_and_is_removed_whole(
    journal: Journal, shared_connection: Connection
) -> None:
    run_id, rerun = new_run_id(), new_run_id()
    await journal.append("gpu", run_id, entry("t||0"))
    await publish_acked(shared_connection, f"pyoco.journal.{run_id}", msgspec.msgpack.encode(entry("old||0")))
    assert await journal.entries("default", run_id) == []
    assert [each.key for each in await journal.entries("gpu", run_id)] == ["t||0"]
    await journal.copy("default", run_id, rerun)
    assert await journal.entries("default", rerun) == []
    await journal.remove(run_id)
    state = await stream_state(shared_connection, "PYOCO_JOURNAL", subjects=f"pyoco.journal.*.{run_id}")
    old = await stream_state(shared_connection, "PYOCO_JOURNAL", subjects=f"pyoco.journal.{run_id}")
    assert (state.subjects, old.subjects) == ({}, {})


async def test_a_flow_yaml_is_found_by_its_digest_alone(
    journal: Journal, shared_connection: Connection
) -> None:
    """Also under the subject of earlier versions, where any worker could write."""
    run_id, source = new_run_id(), {"Pyoco-Kind": "source"}
    digest = sha256(YAML.encode()).hexdigest()
    for subject in (f"pyoco.journal.default.{run_id}", f"pyoco.journal.{run_id}"):
        await publish_acked(shared_connection, subject, b"version: 2", source)
        await publish_acked(shared_connection, subject, b"\xff", source)
    assert await journal.document("default", run_id, digest) is None
    await publish_acked(shared_connection, f"pyoco.journal.{run_id}", YAML.encode(), source)
    assert await journal.document("default", run_id, digest) == YAML
    assert await journal.document("default", run_id, "0" * 64) is None
