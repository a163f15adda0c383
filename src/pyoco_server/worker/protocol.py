"""What the worker and an executor say to each other: length-prefixed msgpack frames over a socket pair.

An executor runs one flow at a time and speaks only when asked: a run is one frame there and one back, so
a short run costs two frames. While a run lasts, the worker asks for its progress.
"""

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

_LENGTH = struct.Struct("!I")


class Setup(Struct, tag=True, kw_only=True):
    """The first frame to an executor: where flows come from."""

    resolver: str | None = None
    flows: str | None = None
    callable_allow: str = ""


class Run(Struct, tag=True, kw_only=True):
    """Execute this run."""

    run_id: str
    flow_name: str
    # JSON, since its integers may be larger than msgpack's.
    params: bytes
    workflow_yaml: bytes | None = None
    # The run's own working directory; None keeps the current one.
    directory: str | None = None


class Cancel(Struct, tag=True, kw_only=True):
    """Ask the flow of this run to stop."""

    run_id: str


class Report(Struct, tag=True):
    """Tell the progress of the run under way."""


class Ready(Struct, tag=True, kw_only=True):
    """The executor can run flows; `error` says why it cannot."""

    error: str | None = None
    # The flows of its folder, and the files of it that could not be loaded, with the reason.
    flows: list[str] = []
    failures: dict[str, str] = {}


class Progress(Struct, tag=True, kw_only=True):
    """The state of each task at this moment."""

    tasks: dict[str, str] = {}


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

    def raw_records(self) -> dict[str, Raw]:
        return {name: Raw(record) for name, record in self.task_records.items()}


ToExecutor = Setup | Run | Cancel | Report
FromExecutor = Ready | Progress | Outcome

_encode = msgspec.msgpack.Encoder().encode
_decode_to = msgspec.msgpack.Decoder(ToExecutor).decode
_decode_from = msgspec.msgpack.Decoder(FromExecutor).decode


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
