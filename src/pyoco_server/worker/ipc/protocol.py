"""The messages between a worker and an executor process: length-prefixed msgpack frames on a socket pair.

An executor runs one flow at a time. A run is one frame to the executor and one back. Between them it sends
what must not be lost with it (finished tasks, printed lines), and its progress on request. Small runs go over
the prefetch channel instead (prefetch_channel.py); messages about runs come in the order of the runs.
"""

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine

_LENGTH = struct.Struct("!I")
# A worker that waits for NATS may send nothing for some seconds.
_SHORTEST_SILENCE_SEC = 10.0


def records_room(config: NatsBackendConfig) -> int:
    """How many bytes of a snapshot the records of its tasks may take; the rest is for everything else."""
    return config.max_run_snapshot_bytes * 3 // 4


class Setup(Struct, tag=True, kw_only=True):
    """The first frame to an executor."""

    resolver: str | None = None
    flows: str | None = None
    callable_allow: str = ""
    task_retry_base_sec: float = 0.5
    task_retry_max_sec: float = 60.0
    journal_value_max_bytes: int = 64 * 1024 * 1024
    result_max_bytes: int = 0
    # What the records of all tasks may take of the snapshot.
    records_max_bytes: int = 192 * 1024
    log_line_max_bytes: int = 16 * 1024
    log_run_max_bytes: int = 10 * 1024 * 1024
    # A worker that sends nothing for longer may have lost the run.
    max_silence_sec: float = 30.0
    # Folders with the code of wheels, first on the import path.
    code_folders: list[str] = []
    # A run that was queued for longer may have another owner by now.
    start_within_sec: float = 15.0
    # Whether `Ready` has the catalogue: one process of a worker is enough.
    describe_flows: bool = False
    # Versions of the code that other processes of the worker have found, by `code_key`: hashing takes long.
    known_versions: dict[str, str] = {}
    # The flows that each file had when it could be loaded, to describe those of a file that is broken now.
    earlier_flows: dict[str, list[str]] = {}

    @classmethod
    def from_config(
        cls, config: NatsBackendConfig, *, resolver: str | None = None, flows: str | None = None
    ) -> "Setup":
        return cls(
            resolver=resolver,
            flows=flows,
            callable_allow=config.callable_allow,
            task_retry_base_sec=config.task_retry_base_sec,
            task_retry_max_sec=config.task_retry_max_sec,
            journal_value_max_bytes=config.journal_value_max_bytes,
            result_max_bytes=config.result_max_bytes,
            records_max_bytes=records_room(config),
            log_line_max_bytes=config.run_log_line_max_bytes,
            log_run_max_bytes=config.run_log_run_max_bytes,
            max_silence_sec=max(config.consumer_ack_wait_sec, _SHORTEST_SILENCE_SEC),
            # A worker extends the AckWait of its messages at least twice in that time.
            start_within_sec=config.consumer_ack_wait_sec / 2,
        )


class Run(Struct, tag=True, kw_only=True):
    run_id: str
    flow_name: str
    # JSON, since its integers may be larger than msgpack's.
    params: bytes
    workflow_yaml: bytes | None = None
    # The run's own working directory; None keeps the current one.
    directory: str | None = None
    attempt: int = 1
    # What earlier attempts, or the original of a rerun, have finished.
    journal: list[JournalEntry] = []
    # A rerun from this task: its results and those downstream are not reused.
    rerun_task: str | None = None
    # When it was sent, by the monotonic clock of this machine.
    sent_at: float | None = None
    # Its waits: a JSON list of WaitRecords, or nothing.
    waits: bytes = b""
    # Of the submitter; None where no API keys are required.
    tenant_id: str | None = None
    # None: submitted over HTTP or NATS.
    cause: Cause | None = None
    api_key_id: str | None = None
    # Another process has had it in this attempt; this one was started for it.
    in_new_process: bool = False


class Cancel(Struct, tag=True, kw_only=True):
    run_id: str


class Report(Struct, tag=True):
    """Send the progress of the current run."""


class ForceEnd(Struct, tag=True, kw_only=True):
    """End this run now, whatever it is doing: send its outcome and exit."""

    run_id: str
    status: str
    error: str


class FilesStored(Struct, tag=True, kw_only=True):
    """What this FilesWritten was about is stored, or it is recorded why it is not."""

    number: int


class Ready(Struct, tag=True, kw_only=True):
    """The executor can run flows, or `error` says why it cannot."""

    error: str | None = None
    # The flows of its folder, and the files that could not be loaded, with the reason.
    flows: list[str] = []
    failures: dict[str, str] = {}
    # The flows of each file that was loaded, if the catalogue was asked for.
    flows_of_files: dict[str, list[str]] = {}
    # An encoded FlowCatalogue; empty if it was not asked for, or a resolver has the flows.
    catalogue: bytes = b""
    # Of what it has loaded; empty with a resolver, whose code is not known.
    code_version: str = ""
    # What the version was found for, see Setup.
    code_key: str = ""


class Progress(Struct, tag=True, kw_only=True):
    """The state of each task; without a run id when there is no run."""

    run_id: str = ""
    tasks: dict[str, str] = {}
    # The records so far, as in an Outcome.
    task_records: dict[str, bytes] = {}


class Finished(Struct, tag=True, kw_only=True):
    """A task has finished: the journal entry that prevents a second execution."""

    entry: JournalEntry


class Asked(Struct, tag=True, kw_only=True):
    """A task waits for a person, a time, a signal or an event: a Question as JSON."""

    question: bytes


class FilesWritten(Struct, tag=True, kw_only=True):
    """The run has files in its artifacts folder: store those that are new, and send FilesStored.

    Sent before the task, or a step of it, is reported as finished: the next owner finds its files.
    """

    number: int
    task: str
    # Which task has saved which file since the last time.
    saved: dict[str, str] = {}


class LimitStarted(Struct, tag=True, kw_only=True):
    """A task with a time limit has started. The worker has a timer too: a task may hold the GIL."""

    key: str
    task: str
    limit_sec: Seconds
    # Whether its flow continues without it.
    isolated: bool
    started_at: Timestamp


class LimitEnded(Struct, tag=True, kw_only=True):
    key: str


class ReadOutput(Struct, tag=True, kw_only=True):
    """Read the pipe of this stream, keep a copy and return the text.

    The worker reports the copy if this process crashes before it has reported the lines itself.
    """

    stream: str
    # The only task that executes now.
    task: str | None = None


class Printed(Struct, tag=True, kw_only=True):
    lines: list[LogLine]
    # Incomplete lines that came from a descriptor, at least in part: reported after a crash.
    unfinished: list[LogLine] = []
    # All text that was returned for the last ReadOutput is in these lines, or in an incomplete one.
    confirms: bool = False


class OutputPart(Struct, tag=True, kw_only=True):
    """A part of what a task returned: of a value that is too large for the task's record.

    All parts of a value come before those of the next one, and before the outcome of the run.
    """

    task: str
    data: bytes
    # Else JSON.
    is_bytes: bool
    is_last: bool


class Origin(Struct, kw_only=True):
    """Where an exception was raised."""

    file: str
    line: int
    func: str


class Outcome(Struct, tag=True, kw_only=True):
    """How the run ended, or that it has to continue or start elsewhere."""

    status: str
    tasks: dict[str, str] = {}
    # Encoded JSON objects, which the worker stores as they are.
    task_records: dict[str, bytes] = {}
    records_cut: bool = False
    reason: str | None = None
    error: str | None = None
    exc_type: str | None = None
    exc_traceback: str | None = None
    exc_origin: Origin | None = None
    # The run left threads or broken streams: this executor exits, and another one takes the next run.
    must_restart: bool = False
    # Not ended: continue from the journal in another process. An isolated task does not stop, the worker was
    # silent for so long that the run may have another owner, or the flow may be in a file that is newer.
    must_continue: bool = False
    # The run was ended from outside, or its executor was killed.
    forced: bool = False
    # It was never started, and will not be by this executor.
    not_started: bool = False
    # Whether files are left in its artifacts folder.
    has_files: bool = False
    # The task that the flow names for the result of the run.
    result_task: str | None = None
    # What it waits for: a JSON list of Questions.
    questions: bytes = b"[]"
    # The execution time in this executor.
    took_sec: float = 0.0


def raw_records(report: Progress | Outcome) -> dict[str, Raw]:
    return {name: Raw(record) for name, record in report.task_records.items()}


ToExecutor = Setup | Run | Cancel | Report | ForceEnd | FilesStored
FromExecutor = (
    Ready
    | Progress
    | Finished
    | Asked
    | FilesWritten
    | LimitStarted
    | LimitEnded
    | ReadOutput
    | Printed
    | OutputPart
    | Outcome
)

_encode = msgspec.msgpack.Encoder().encode
_decode_to = msgspec.msgpack.Decoder(ToExecutor).decode
_decode_from = msgspec.msgpack.Decoder(FromExecutor).decode


def packet(message: Run | Outcome) -> bytes:
    """A message for the prefetch channel, which preserves packet boundaries."""
    return _encode(message)


def frame(message: ToExecutor | FromExecutor) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameTooLong(ValueError):
    """A frame announces more bytes than any message has."""


class Frames:
    def __init__(self, *, max_bytes: int = 2**32) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The complete frames; FrameTooLong if the next one is longer than it may be."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._max_bytes:
                raise FrameTooLong(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield body


def message_to_executor(body: bytes) -> ToExecutor:
    message: ToExecutor = _decode_to(body)
    return message


def message_from_executor(body: bytes) -> FromExecutor:
    message: FromExecutor = _decode_from(body)
    return message
