"""What a worker accepts from an executor, and what breaks the protocol."""

import math
import struct
from typing import Any

import msgspec
import pytest

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.waits.wait_models import Question
from pyoco_server.worker.ipc.message_checks import ProtocolViolation, checked_message
from pyoco_server.worker.ipc.protocol import (
    Asked,
    Finished,
    Frames,
    FrameTooLong,
    LimitStarted,
    Outcome,
    Printed,
    Progress,
    ReadOutput,
    Ready,
)

QUESTION = msgspec.json.encode(Question(node="a||0", task="a", name="approve", message="Go?"))
ENTRY = JournalEntry(key="a||0", task="a", attempt=1, started_at=1.0, ended_at=2.0)
LINE = LogLine(ts=1.0, stream="stdout", text="hello")
RECORD = msgspec.json.encode({"state": "SUCCEEDED", "output": {"a": [1, 2.5, None, "é"]}})
NESTED = b'{"a":' * 600 + b"1" + b"}" * 600

VALID: list[Any] = [
    Outcome(status="COMPLETED", tasks={"a": "SUCCEEDED"}, task_records={"a": RECORD}, took_sec=0.1),
    Outcome(status="FAILED", reason="execution_error", error="it failed"),
    Outcome(status="RUNNING", must_continue=True),
    Outcome(status="RUNNING", not_started=True),
    Outcome(status="WAITING_HUMAN", questions=b"[" + QUESTION + b"]"),
    Progress(run_id="r", tasks={"a": "RUNNING"}, task_records={"a": RECORD}),
    Finished(entry=ENTRY),
    Asked(question=QUESTION),
    Printed(lines=[LINE]),
    ReadOutput(stream="stderr"),
    Ready(flows=["a"], code_version="0123456789abcdef"),
    LimitStarted(key="k", task="a", limit_sec=1.0, isolated=False, started_at=1.0),
]
INVALID: dict[str, Any] = {
    "version of the code that fills the snapshot": Ready(code_version="a" * 100_000),
    "key of the code that fills the memory": Ready(code_key="a" * 100_000),
    "unknown status": Outcome(status="HACKED"),
    "status of a run that goes on": Outcome(status="RUNNING"),
    "status of a run that was not started": Outcome(status="PENDING"),
    "unknown task state": Outcome(status="COMPLETED", tasks={"a": "HACKED"}),
    "unknown reason": Outcome(status="FAILED", reason="because"),
    "NaN as a duration": Outcome(status="COMPLETED", took_sec=math.nan),
    "negative duration": Outcome(status="COMPLETED", took_sec=-1.0),
    "record is not JSON": Outcome(status="COMPLETED", task_records={"a": b"{"}),
    "record is not an object": Outcome(status="COMPLETED", task_records={"a": b"[]"}),
    "record with NaN": Outcome(status="COMPLETED", task_records={"a": b'{"a": NaN}'}),
    "record with a lone surrogate": Outcome(status="COMPLETED", task_records={"a": b'{"a": "\\ud800"}'}),
    "record that is not UTF-8": Outcome(status="COMPLETED", task_records={"a": b'{"a": "\xff"}'}),
    "record with a huge number": Outcome(status="COMPLETED", task_records={"a": b'{"a": 1e999}'}),
    "record with a huge integer": Progress(run_id="r", task_records={"a": b'{"a": ' + b"9" * 5000 + b"}"}),
    "record that is nested": Progress(run_id="r", task_records={"a": NESTED}),
    "questions that are none": Outcome(status="WAITING_HUMAN", questions=b"[1]"),
    "no questions": Outcome(status="WAITING_HUMAN"),
    "question that is none": Asked(question=b"{}"),
    "question with a nested proposal": Asked(question=QUESTION[:-1] + b',"proposal":' + NESTED + b"}"),
    "line without a time": Printed(lines=[LogLine(ts=math.nan, stream="stdout", text="")]),
    "line of the future": Printed(lines=[LogLine(ts=1e300, stream="stdout", text="")]),
    "unknown stream": ReadOutput(stream="../../etc/passwd"),
    "endless limit": LimitStarted(key="k", task="a", limit_sec=math.inf, isolated=False, started_at=1.0),
    "negative number": Finished(entry=msgspec.structs.replace(ENTRY, number=-1)),
}


@pytest.mark.parametrize("message", VALID, ids=lambda message: type(message).__name__)
def test_a_valid_message_is_accepted(message: Any) -> None:
    assert checked_message(msgspec.msgpack.encode(message)) == message


@pytest.mark.parametrize("message", INVALID.values(), ids=INVALID)
def test_an_invalid_message_breaks_the_protocol(message: Any) -> None:
    with pytest.raises(ProtocolViolation):
        checked_message(msgspec.msgpack.encode(message))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"hello", msgspec.msgpack.encode({"type": "Setup"})])
def test_what_is_no_message_breaks_the_protocol(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        checked_message(body)


def test_a_frame_that_announces_too_many_bytes_is_not_awaited() -> None:
    frames = Frames(max_bytes=100)
    assert list(frames.feed(struct.pack("!I", 100) + b"x" * 100)) == [b"x" * 100]
    with pytest.raises(FrameTooLong, match="101 bytes"):
        list(frames.feed(struct.pack("!I", 101)))
