"""Ids that follow from what they name."""

from uuid import UUID

from pyoco_server.records.ids import new_uuid, uuid_of


def test_the_id_of_the_same_parts_never_changes() -> None:
    """Runs of schedules are stored under it: another id would start them again after an update."""
    assert (
        uuid_of("schedule", "=.nightly", "made-1", 1_800_000_000.0) == "3a697fe4-393f-813b-b278-a09f7e200b56"
    )
    assert uuid_of("a", "b") != uuid_of("ab") != uuid_of("b", "a")


def test_ids_are_uuids() -> None:
    assert UUID(new_uuid()).version == 4
    assert UUID(uuid_of("a")).version == 8
    assert str(UUID(uuid_of("a"))) == uuid_of("a")
