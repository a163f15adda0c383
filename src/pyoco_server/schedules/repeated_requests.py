"""Requests with an Idempotency-Key: the record of the schedule keeps the response of each.

It is written together with what the request has done, so that a repetition finds both or neither.
"""

from hashlib import sha256
from typing import Final

from msgspec import structs

from pyoco_server.errors import IdempotencyConflict, shortened
from pyoco_server.records.schedules.schedule_models import AcceptedRequest, DecisionOutcome, ScheduleRecord
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest

# The record is written with every occurrence: it has to stay small.
MAX_REQUESTS: Final = 50
_DIGEST_CHARS: Final = 32
# Short enough to type, and unique among the backfills of a schedule.
BACKFILL_ID_BYTES: Final = 8


def earlier_request(record: ScheduleRecord, request: KeyedRequest | None) -> AcceptedRequest | None:
    """The accepted request with this key, if any; IdempotencyConflict if it was another one."""
    if request is None:
        return None
    key = request.key.stored_as[:_DIGEST_CHARS]
    found = next((each for each in record.requests if each.key == key), None)
    if found is not None and found.digest != request.digest[:_DIGEST_CHARS]:
        text = shortened(request.key.text)
        raise IdempotencyConflict(
            f"{text} was used before with another payload, for schedule {record.schedule_id}"
        )
    return found


def with_request(
    record: ScheduleRecord,
    request: KeyedRequest | None,
    *,
    now: float,
    run_id: str | None = None,
    outcome: DecisionOutcome | None = None,
    count: int = 0,
) -> ScheduleRecord:
    """The record, which remembers the request if it has a key."""
    if request is None:
        return record
    accepted = AcceptedRequest(
        key=request.key.stored_as[:_DIGEST_CHARS],
        digest=request.digest[:_DIGEST_CHARS],
        at=now,
        run_id=run_id,
        outcome=outcome,
        count=count,
    )
    return structs.replace(record, requests=[*record.requests, accepted][-MAX_REQUESTS:])


def id_of(request: KeyedRequest) -> str:
    """The same for a repetition: also one that is not remembered any more starts no run twice."""
    return f"{request.key.stored_as[:_DIGEST_CHARS]}{request.digest[:_DIGEST_CHARS]}"


def backfill_id_of(request: KeyedRequest) -> str:
    """The same for a repetition."""
    return sha256(id_of(request).encode()).hexdigest()[: 2 * BACKFILL_ID_BYTES]
