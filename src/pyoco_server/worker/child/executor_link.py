"""An executor's end of the sockets to its worker: runs come in, what happens in them goes out.

Whoever waits reads: the main thread while it has no run, so that a short run needs no second thread; a
listener while a run lasts, so that a running flow can be asked to report or to stop. When the worker goes
away the sockets end, and so does this process: no run outlives its owner. Whatever else ends the listener
ends the process too, since the end of the worker would go unnoticed after it. The listener sends nothing: a
worker that is paused does not read, and the listener has to notice that.
"""

import os
import select
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from pyoco_server.worker.ipc.prefetch_channel import receive
from pyoco_server.worker.ipc.protocol import (
    Frames,
    FromExecutor,
    Outcome,
    Run,
    Setup,
    ToExecutor,
    frame,
    message_to_executor,
    packet,
)

_READ_BYTES = 256 * 1024
# A run that takes longer is listened for. Looking is cheaper than being woken for each run.
_SHORT_SEC = 0.01
# After this many looks without a run the listener sleeps until there is one.
_LOOKS_AT_NOTHING = 100

# Before the worker has said how patient to be.
_UNTIL_TOLD_SEC = 60.0

_STDERR = 2

Heard = Callable[[ToExecutor], None]


class ExecutorLink:
    def __init__(
        self,
        link: socket.socket,
        ahead: socket.socket,
        *,
        on_message: Heard,
        on_silence: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._link = link
        self._ahead = ahead
        self._on_message = on_message
        self._on_silence = on_silence
        self._on_end = on_end
        # How long the worker may say nothing during a run that lasts.
        self.max_silence_sec = _UNTIL_TOLD_SEC
        self._heard = select.poll()
        self._heard.register(link, select.POLLIN)
        self._either = select.poll()
        self._either.register(link, select.POLLIN)
        self._either.register(ahead, select.POLLIN)
        self._sending = threading.Lock()
        # For the listener to read, and for the main thread to stop it from that.
        self._reading = threading.Lock()
        self._frames = Frames()
        self._arrived: deque[Setup | Run] = deque()
        self._busy = threading.Event()
        self._in_run = False
        self._runs = 0

    def start(self) -> None:
        self.start_thread(self._listen_for_ever, "executor-link")

    def start_thread(self, function: Callable[[], None], name: str) -> None:
        """A thread that this process cannot do without: if it fails, the process ends."""
        threading.Thread(target=self._run_or_end, args=[function], name=name, daemon=True).start()

    def send(self, message: FromExecutor) -> None:
        data = frame(message)
        try:
            with self._sending:
                self._link.sendall(data)
        except OSError:
            if self._link.fileno() < 0:
                # A child that a task has forked: its copy of the socket was closed, and it has no worker.
                raise
            self._end()

    def send_apart(self, outcome: Outcome) -> None:
        """Send a small outcome past all that waits to be sent: nothing else goes this way, so there is room.

        The worker looks for it when this process has ended.
        """
        # Without the channel there is no other way: the worker sees the exit of this process.
        with suppress(OSError):
            self._ahead.send(packet(outcome), socket.MSG_DONTWAIT)

    def next(self) -> Setup | Run:
        """Wait for the setup or the next run."""
        with self._reading:
            self._in_run = False
        while not self._arrived:
            ready = dict(self._either.poll())
            # The link first: a worker that has gone wants nothing begun.
            if self._link.fileno() in ready:
                self._read()
            elif (run := self._next_ahead()) is not None:
                self._arrived.append(run)
        message = self._arrived.popleft()
        self._runs += 1
        self._in_run = True
        if not self._busy.is_set():
            self._busy.set()
        return message

    def _next_ahead(self) -> Run | None:
        try:
            return receive(self._ahead)
        except (EOFError, OSError):
            self._end()

    def _run_or_end(self, function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException:  # noqa: BLE001 - whatever it is, a run must not go on without this thread
            with suppress(OSError):
                os.write(_STDERR, traceback.format_exc().encode("utf-8", "replace"))
            self._end(1)

    def _listen_for_ever(self) -> None:
        nothing = 0
        while True:
            self._busy.wait()
            runs = self._runs
            time.sleep(_SHORT_SEC)
            if self._in_run and self._runs == runs:
                self._hear_while_runs_last()
            nothing = 0 if self._in_run or self._runs != runs else nothing + 1
            if nothing > _LOOKS_AT_NOTHING:
                nothing = 0
                self._busy.clear()

    def _hear_while_runs_last(self) -> None:
        """A worker that is alive asks for the progress of a run that lasts, several times a second."""
        while self._in_run:
            runs = self._runs
            heard = self._heard.poll(self.max_silence_sec * 1000)
            with self._reading:
                # Between runs it is the main thread that waits, and reads.
                if not self._in_run:
                    return
                if heard and self._heard.poll(0):
                    self._read()
            if not heard and self._in_run and self._runs == runs:
                self._on_silence()

    def _read(self) -> None:
        try:
            data = self._link.recv(_READ_BYTES)
        except OSError:
            # A task has closed our descriptor: without a worker to tell, there is nothing left to do.
            data = b""
        if not data:
            self._end()
        for body in self._frames.feed(data):
            message = message_to_executor(body)
            if isinstance(message, Setup | Run):
                self._arrived.append(message)
            else:
                self._on_message(message)

    def _end(self, code: int = 0) -> NoReturn:
        try:
            self._on_end()
        finally:
            # Not sys.exit: the main thread may be inside a user's task.
            os._exit(code)
