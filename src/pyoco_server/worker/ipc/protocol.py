"""What the worker and an executor say to each other: length-prefixed msgpack frames over a socket pair.

An executor runs one flow at a time. A run is one frame there and one back; between them the executor tells
what must not be lost with it (finished tasks, printed lines), and its progress when it is asked: a short
run costs two frames. Runs that are not large come over a channel of their own, from which the worker can
take back those that wait (see ahead_channel.py); what is said of them comes in the order of the runs.
"""

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, LogLine

_LENGTH = struct.Struct("!I")
# A worker that waits for NATS may be silent for some seconds.
_SHORTEST_SILENCE_SEC = 10.0


class Setup(Struct, tag=True, kw_only=True):
    """The first frame to an executor: where flows come from."""

    resolver: str | None = None
    flows: str | None = None
    callable_allow: str = ""
    task_retry_base_sec: float = 0.5
    task_retry_max_sec: float = 60.0
    journal_value_max_bytes: int = 64 * 1024 * 1024
    log_line_max_bytes: int = 16 * 1024
    log_run_max_bytes: int = 10 * 1024 * 1024
    # A worker that is silent for longer may have lost the run.
    max_silence_sec: float = 30.0
    # Folders with the code of wheels, which imports look into first.
    code_folders: list[str] = []
    # A run that has waited for longer may be another's by now.
    begin_within_sec: float = 15.0

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
            log_line_max_bytes=config.run_log_line_max_bytes,
            log_run_max_bytes=config.run_log_run_max_bytes,
            max_silence_sec=max(config.consumer_ack_wait_sec, _SHORTEST_SILENCE_SEC),
            # A worker keeps the messages of its runs alive at least twice in that time.
            begin_within_sec=config.consumer_ack_wait_sec / 2,
        )


class Run(Struct, tag=True, kw_only=True):
    """Execute this run."""

    run_id: str
    flow_name: str
    # JSON, since its integers may be larger than msgpack's.
    params: bytes
    workflow_yaml: bytes | None = None
    # The run's own working directory; None keeps the current one.
    directory: str | None = None
    attempt: int = 1
    # What earlier attempts, or the run that this one repeats, have finished.
    journal: list[JournalEntry] = []
    # A rerun from this task: its own results, and those of what follows it, are not reused.
    rerun_task: str | None = None
    # When it was sent, by the monotonic clock of this machine.
    sent_at: float | None = None
    # Its waits for people, a JSON list of WaitRecords; empty: it had none.
    waits: bytes = b""


class Cancel(Struct, tag=True, kw_only=True):
    """Ask the flow of this run to stop."""

    run_id: str


class Report(Struct, tag=True):
    """Tell the progress of the run under way."""


class Abandon(Struct, tag=True, kw_only=True):
    """Give this run up now, whatever it is doing: tell its outcome, and end the process."""

    run_id: str
    status: str
    error: str


class Ready(Struct, tag=True, kw_only=True):
    """The executor can run flows; `error` says why it cannot."""

    error: str | None = None
    # The flows of its folder, and the files of it that could not be loaded, with the reason.
    flows: list[str] = []
    failures: dict[str, str] = {}


class Progress(Struct, tag=True, kw_only=True):
    """The state of each task at this moment; of no run when there was none."""

    run_id: str = ""
    tasks: dict[str, str] = {}
    # What is known of each task so far, as in an Outcome.
    task_records: dict[str, bytes] = {}

    def raw_records(self) -> dict[str, Raw]:
        return _raw(self.task_records)


class Finished(Struct, tag=True, kw_only=True):
    """A task has finished: this is what its run needs in order not to execute it again."""

    entry: JournalEntry


class Asked(Struct, tag=True, kw_only=True):
    """A task asks a person something, and nobody has answered yet: a Question as JSON."""

    question: bytes


class Limited(Struct, tag=True, kw_only=True):
    """A task with a time limit has begun. The worker watches it too: a task may hold the GIL."""

    key: str
    task: str
    limit_sec: float
    # Whether its flow goes on without it.
    isolated: bool
    started_at: float


class Unlimited(Struct, tag=True, kw_only=True):
    """That task has ended."""

    key: str


class ReadOutput(Struct, tag=True, kw_only=True):
    """Something was written to the descriptor of this stream: read it, keep a copy, return it.

    The copy is the worker's to report if this process crashes before it has done so itself.
    """

    stream: str
    # The only task that executes now.
    task: str | None = None


class Printed(Struct, tag=True, kw_only=True):
    """Lines that were printed."""

    lines: list[LogLine]
    # The beginnings of lines, at least in part from a descriptor: the worker reports them after a crash.
    unfinished: list[LogLine] = []
    # All that was returned after the last ReadOutput is in these lines, or is the beginning of one.
    confirms: bool = False


class Outcome(Struct, tag=True, kw_only=True):
    """How the run ended."""

    status: str
    tasks: dict[str, str] = {}
    # Encoded JSON objects, which the worker stores as they are.
    task_records: dict[str, bytes] = {}
    records_cut: bool = False
    reason: str | None = None
    error: str | None = None
    exc_type: str | None = None
    exc_traceback: str | None = None
    # The run left threads or broken streams behind: this executor leaves, and the next run gets another.
    spoilt: bool = False
    # Not over: go on from the journal, in another process. A task that the flow can do without does not end,
    # or the worker was silent for so long that the run may be another's.
    go_on: bool = False
    # The flow did not come to this end by itself: it was given up, or its executor was killed.
    by_force: bool = False
    # It was never begun, and never will be here.
    not_begun: bool = False
    # What it waits for, and what it does not need an answer to any more: JSON lists of Questions.
    questions: bytes = b"[]"
    unwanted: bytes = b"[]"
    # How long the executor had it.
    took_sec: float = 0.0

    def raw_records(self) -> dict[str, Raw]:
        return _raw(self.task_records)


def _raw(records: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(record) for name, record in records.items()}


ToExecutor = Setup | Run | Cancel | Report | Abandon
FromExecutor = Ready | Progress | Finished | Asked | Limited | Unlimited | ReadOutput | Printed | Outcome

_encode = msgspec.msgpack.Encoder().encode
_decode_to = msgspec.msgpack.Decoder(ToExecutor).decode
_decode_from = msgspec.msgpack.Decoder(FromExecutor).decode


def packet(message: Run | Outcome) -> bytes:
    """A message as the channel of waiting runs carries it, which keeps packets apart by itself."""
    return _encode(message)


def frame(message: ToExecutor | FromExecutor) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a byte stream back into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
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
