"""The stored part of an agent request: its place in the queue, its runs, and what was asked of them.

Title, priority, tags and the text are in `requests/<id>.md`; the state of a run is in its snapshot.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.value_types import Count, RunId, Tag
from pyoco_server.records.waits.wait_models import Actor

# Also a file name, and the last part of a branch name and of a NATS key.
REQUEST_ID_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$(?!\n)"
RequestId = Annotated[str, Meta(pattern=REQUEST_ID_PATTERN)]
# How many runs a record keeps; the files of earlier ones stay in the folder of runs.
MAX_RUNS: Final = 100


class RequestOutcome(OpenStrEnum):
    """The status of a request after a run of it has ended."""

    # It was stopped, and its work is saved.
    QUEUED = "queued"
    FAILED = "failed"
    DONE = "done"


class StopIntent(Struct, kw_only=True, omit_defaults=True):
    """Somebody has asked to stop a run."""

    at: Timestamp
    # The id of the API key.
    by: str | None = None


class AnswerIntent(Struct, kw_only=True, omit_defaults=True):
    """An answer that is being written to the file and given to the run."""

    run_id: RunId
    wait_id: str
    # One of its choices, or any text.
    text: str
    at: Timestamp
    by: Actor
    # Of the question, as in the file; None if an earlier version has written it.
    key: str | None = None
    # Whether the run has it; None: that is not known yet.
    accepted: bool | None = None


class RequestRun(Struct, kw_only=True, omit_defaults=True):
    """One run of a request."""

    # 1 is shown as `001`.
    number: Annotated[int, Meta(ge=1)]
    run_id: RunId
    created_at: Timestamp
    # Whether the run is known to be stored: from then on it is not created again.
    stored: bool = False
    stop: StopIntent | None = None
    # Set when the run has ended and the file of the request says so.
    outcome: RequestOutcome | None = None


class RequestRecord(Struct, kw_only=True, omit_defaults=True):
    """The key is `<repository tag>.<id>`, in the bucket `pyoco_requests`."""

    repo: Tag
    request_id: RequestId
    # Distinguishes it from a deleted one with the same id.
    created_at: Timestamp
    # Since when it waits for its turn; None: it is not in the queue.
    queued_at: Timestamp | None = None
    # Whether it was taken out of the queue before its turn.
    withdrawn: bool = False
    # The number of its last run.
    sequence: Count = 0
    # The newest last.
    runs: list[RequestRun] = []
    answer: AnswerIntent | None = None

    @property
    def key(self) -> str:
        return request_key(self.repo, self.request_id)

    @property
    def latest(self) -> RequestRun | None:
        return self.runs[-1] if self.runs else None

    @property
    def is_queued(self) -> bool:
        """Whether it is queued whatever its latest run has become: that run is to be followed by another."""
        return self.queued_at is not None or self.withdrawn

    @property
    def open_run(self) -> RequestRun | None:
        """The run that has not ended, as far as this record knows."""
        latest = self.latest
        return latest if latest is not None and latest.outcome is None else None


def request_key(repo: str, request_id: str) -> str:
    return f"{repo}.{request_id}"


def with_run(record: RequestRecord, run: RequestRun) -> RequestRecord:
    """The record with this run in place of the one of its number, or as its newest one."""
    others = [each for each in record.runs if each.number != run.number]
    runs = sorted([*others, run], key=lambda each: each.number)[-MAX_RUNS:]
    return msgspec.structs.replace(record, runs=runs, sequence=max(record.sequence, run.number))


decode_request = record_decoder(RequestRecord)
