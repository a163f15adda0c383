"""The channel on which runs come to an executor, and from which those that wait there can be taken back.

The worker keeps the reading end open as well. The kernel gives each packet to exactly one reader: a run that
the worker has taken back is never begun, and one that it has not is the executor's. So nothing needs to be
asked of an executor, whose task may hold the GIL. The way back is for the outcome of an executor that leaves
and cannot send it on the link, because a worker that is paused has not read what was sent before.
"""

import socket

from pyoco_server.worker.ipc.protocol import Outcome, Run, message_from_executor, message_to_executor, packet

# A run that takes more goes over the link, and nothing waits behind it.
_PACKET_BYTES = 32 * 1024


class AheadChannel:
    """The worker's side of it."""

    def __init__(self) -> None:
        self._open = True
        self._writing, self.reading = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send(self, run: Run) -> bool:
        """Whether the run is on the channel now; one that is too large, or too much for it, is not."""
        data = packet(run)
        if len(data) > _PACKET_BYTES or not self._open:
            return False
        try:
            self._writing.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def take_back(self) -> list[Run]:
        """The runs that the executor has not taken, and now never will."""
        runs: list[Run] = []
        while self._open and (run := receive(self.reading)) is not None:
            runs.append(run)
        return runs

    def last_outcome(self) -> Outcome | None:
        """What an executor that has left sent here, if it could not send it on the link."""
        try:
            data = self._writing.recv(_PACKET_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        outcome = message_from_executor(data)
        assert isinstance(outcome, Outcome)
        return outcome

    def close(self) -> None:
        self._open = False
        self._writing.close()
        self.reading.close()


def receive(channel: socket.socket) -> Run | None:
    """The run that has waited longest; None when there is none. EOFError when the worker has gone."""
    try:
        data = channel.recv(_PACKET_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    if not data:
        raise EOFError
    run = message_to_executor(data)
    assert isinstance(run, Run)
    return run
