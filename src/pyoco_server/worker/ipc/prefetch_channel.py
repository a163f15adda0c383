"""The channel on which runs reach an executor, and from which the worker can recall those it has not read.

Both processes keep the read end open, and the kernel gives each packet to exactly one reader: a recalled run
is never started, and any other is the executor's. So the worker needs no cooperation of an executor whose
task may hold the GIL. The opposite direction carries one message: the outcome of an exiting executor that
cannot send it on the link, because a paused worker has not read what was sent before.
"""

import socket

from pyoco_server.worker.ipc.message_checks import ProtocolViolation, checked_message
from pyoco_server.worker.ipc.protocol import Outcome, Run, message_to_executor, packet

# A larger run is sent on the link, and no run is queued after it.
_PACKET_BYTES = 32 * 1024


class PrefetchChannel:
    """The worker's side."""

    def __init__(self) -> None:
        self._open = True
        self._writing, self.reading = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send(self, run: Run) -> bool:
        """Whether the run was sent; false if it is too large or the channel is full."""
        data = packet(run)
        if len(data) > _PACKET_BYTES or not self._open:
            return False
        try:
            self._writing.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def recall(self) -> list[Run]:
        runs: list[Run] = []
        while self._open and (run := receive(self.reading)) is not None:
            runs.append(run)
        return runs

    def last_outcome(self) -> Outcome | None:
        """What an exited executor could not send on the link; ProtocolViolation if it is not an outcome."""
        try:
            data = self._writing.recv(_PACKET_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        outcome = checked_message(data)
        if not isinstance(outcome, Outcome):
            raise ProtocolViolation(f"{type(outcome).__name__} instead of an outcome")
        return outcome

    def close(self) -> None:
        self._open = False
        self._writing.close()
        self.reading.close()


def receive(channel: socket.socket) -> Run | None:
    """The next run; None when there is none. EOFError when the worker has gone."""
    try:
        data = channel.recv(_PACKET_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    if not data:
        raise EOFError
    run = message_to_executor(data)
    assert isinstance(run, Run)
    return run
