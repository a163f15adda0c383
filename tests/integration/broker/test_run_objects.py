"""The objects of runs: complete or not visible, read in ranges, and removed with their run."""

import hashlib
from collections.abc import AsyncIterator

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs import run_object_store
from pyoco_server.broker.stores.runs.run_object_store import (
    PART_BYTES,
    RunObject,
    RunObjectGone,
    RunObjects,
    RunObjectTooLarge,
)
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import new_run_id

pytestmark = pytest.mark.asyncio(loop_scope="module")

TAG = "default"
# Several groups of parts, and a last part that is not full.
LARGE = bytes(range(256)) * (PART_BYTES * 20 // 256) + b"the end"


async def in_blocks(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


async def cut_off(content: bytes) -> AsyncIterator[bytes]:
    yield content
    raise ConnectionResetError("the source is gone")


async def whole(objects: RunObjects, run_id: str, stored: RunObject, *part: int) -> bytes:
    return b"".join([block async for block in objects.read(TAG, run_id, stored, *part)])


async def messages(connection: Connection, run_id: str) -> int:
    """How many messages there are of a run."""
    info = await connection.client.jetstream().stream_info("PYOCO_OBJECTS", subjects_filter=">")
    return sum(count for subject, count in (info.state.subjects or {}).items() if run_id in subject)


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


@pytest.fixture
def objects(connection: Connection) -> RunObjects:
    return RunObjects(connection)


@pytest.mark.parametrize("content", [b"", b"x", b"y" * PART_BYTES, LARGE])
async def test_what_was_stored_is_read(objects: RunObjects, content: bytes) -> None:
    run_id = new_run_id()
    stored = await objects.put(TAG, run_id, "out/ä .json", in_blocks(content), details={"task": "load"})
    assert stored.bytes == len(content)
    assert stored.sha256 == hashlib.sha256(content).hexdigest()
    assert await objects.find(TAG, run_id, "out/ä .json") == stored
    assert stored.details == {"task": "load"}
    assert await whole(objects, run_id, stored) == content


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (PART_BYTES - 1, PART_BYTES + 1),
        (5, 17 * PART_BYTES),
        (len(LARGE) - 3, len(LARGE) + 9),
        (7, 7),
    ],
)
async def test_a_range_is_read(objects: RunObjects, start: int, stop: int) -> None:
    run_id = new_run_id()
    stored = await objects.put(TAG, run_id, "large", in_blocks(LARGE, 999_983))
    assert await whole(objects, run_id, stored, start, stop) == LARGE[start:stop]


async def test_the_objects_of_a_run_are_listed_by_name(objects: RunObjects) -> None:
    run_id, other = new_run_id(), new_run_id()
    names = [f"../{number:03d}" for number in range(150)]
    for name in reversed(names):
        await objects.put(TAG, run_id, name, in_blocks(name.encode()))
    await objects.put(TAG, other, "another", in_blocks(b"x"))
    await objects.put("gpu", run_id, "of another tag", in_blocks(b"x"))
    assert [each.name for each in await objects.entries(TAG, run_id)] == names


async def test_an_interrupted_upload_is_not_visible_and_is_swept(
    connection: Connection, objects: RunObjects
) -> None:
    run_id = new_run_id()
    with pytest.raises(ConnectionResetError):
        await objects.put(TAG, run_id, "cut", cut_off(LARGE))
    assert await objects.find(TAG, run_id, "cut") is None
    assert await objects.entries(TAG, run_id) == []
    assert await messages(connection, run_id) > 10
    await objects.drop_abandoned(older_than_sec=60.0)
    assert await messages(connection, run_id) > 10, "it may still be under way"
    await objects.drop_abandoned(older_than_sec=0.0)
    assert await messages(connection, run_id) == 0


async def test_an_interrupted_replacement_keeps_the_earlier_object(objects: RunObjects) -> None:
    run_id = new_run_id()
    first = await objects.put(TAG, run_id, "result", in_blocks(LARGE))
    with pytest.raises(ConnectionResetError):
        await objects.put(TAG, run_id, "result", cut_off(b"other" * PART_BYTES))
    await objects.drop_abandoned(older_than_sec=0.0)
    found = await objects.find(TAG, run_id, "result")
    assert found == first
    assert await whole(objects, run_id, found) == LARGE


async def test_a_replaced_object_is_swept(connection: Connection, objects: RunObjects) -> None:
    run_id = new_run_id()
    first = await objects.put(TAG, run_id, "result", in_blocks(LARGE))
    second = await objects.put(TAG, run_id, "result", in_blocks(b"second"))
    assert await whole(objects, run_id, first) == LARGE, "somebody may still read it"
    await objects.drop_abandoned(older_than_sec=0.0)
    assert await messages(connection, run_id) == 2, "the record, and the only part"
    assert await whole(objects, run_id, second) == b"second"
    with pytest.raises(RunObjectGone, match="part 0 of result"):
        await whole(objects, run_id, first)


async def test_an_object_that_is_too_large_is_not_visible(objects: RunObjects) -> None:
    run_id = new_run_id()
    with pytest.raises(RunObjectTooLarge, match="more than 100 bytes"):
        await objects.put(TAG, run_id, "big", in_blocks(b"x" * 101), max_bytes=100)
    assert await objects.entries(TAG, run_id) == []
    await objects.put(TAG, run_id, "fits", in_blocks(b"x" * 100), max_bytes=100)


async def test_the_objects_of_a_run_are_removed_together(connection: Connection, objects: RunObjects) -> None:
    run_id, other = new_run_id(), new_run_id()
    for name in ("a", "b"):
        stored = await objects.put(TAG, run_id, name, in_blocks(LARGE))
    kept = await objects.put(TAG, other, "a", in_blocks(b"kept"))
    reader = objects.read(TAG, run_id, stored)
    await anext(reader)
    await objects.remove_run(run_id)
    assert await messages(connection, run_id) == 0
    assert await whole(objects, other, kept) == b"kept"
    with pytest.raises(RunObjectGone):
        [block async for block in reader]


@pytest.mark.parametrize("name", ["", "x" * 1025])
async def test_a_name_that_cannot_be_stored_is_refused(objects: RunObjects, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        await objects.put(TAG, new_run_id(), name, in_blocks(b"x"))


async def test_a_record_that_cannot_be_read_is_left_out(connection: Connection, objects: RunObjects) -> None:
    run_id = new_run_id()
    await objects.put(TAG, run_id, "good", in_blocks(b"x"))
    await connection.client.jetstream().publish(f"pyoco.objects.{TAG}.{run_id}.bad.record", b"no JSON")
    assert [each.name for each in await objects.entries(TAG, run_id)] == ["good"]


async def test_an_upload_has_a_time_limit(
    connection: Connection, objects: RunObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_object_store, "_UPLOAD_SEC", 0.0)
    with pytest.raises(NatsUnavailable, match="not stored within 0 s"):
        await objects.put(TAG, new_run_id(), "slow", in_blocks(LARGE))
