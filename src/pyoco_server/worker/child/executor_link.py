"""An executor's end of the sockets to its worker: receives runs and commands, sends messages.

The main thread reads while it has no run, so that a short run needs no second thread; a listener reads while
a run lasts. When the worker exits the sockets are closed, and this process exits: no run outlives its owner.
A failure of the listener ends the process too, since nothing else would notice the end of the worker. The
listener sends nothing: it has to notice that a paused worker does not read.
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
# The listener reads during a run that takes longer. Polling is cheaper than a wake-up for each run.
_SHORT_SEC = 0.01
# After this many polls without a run the listener sleeps until there is one.
_IDLE_POLLS = 100

# Until the setup has arrived.
_INITIAL_SILENCE_SEC = 60.0

_STDERR = 2


class ExecutorLink:
    def __init__(
        self,
        link: socket.socket,
        prefetch: socket.socket,
        *,
        on_message: Callable[[ToExecutor], None],
        on_silence: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._link = link
        self._prefetch = prefetch
        self._on_message = on_message
        self._on_silence = on_silence
        self._on_end = on_end
        # How long the worker may send nothing during a long run.
        self.max_silence_sec = _INITIAL_SILENCE_SEC
        self._link_poll = select.poll()
        self._link_poll.register(link, select.POLLIN)
        self._both_poll = select.poll()
        self._both_poll.register(link, select.POLLIN)
        self._both_poll.register(prefetch, select.POLLIN)
        self._sending = threading.Lock()
        # Held by the listener while it reads, and by the main thread to stop it.
        self._reading = threading.Lock()
        self._frames = Frames()
        self._arrived: deque[Setup | Run] = deque()
        self._active = threading.Event()
        self._in_run = False
        self._runs = 0

    def start(self) -> None:
        self.start_thread(self._listen, "executor-link")

    def start_thread(self, function: Callable[[], None], name: str) -> None:
        """Start a required thread: if it fails, the process exits."""
        threading.Thread(target=self._run_or_end, args=[function], name=name, daemon=True).start()

    def send(self, message: FromExecutor) -> None:
        data = frame(message)
        try:
            with self._sending:
                self._link.sendall(data)
        except OSError:
            if self._link.fileno() < 0:
                # A forked child of a task: its copy of the socket is closed.
                raise
            self._end()

    def send_out_of_band(self, outcome: Outcome) -> None:
        """Send a small outcome on the prefetch channel, which the worker reads when this process has exited.

        Nothing else is sent in this direction, so that there is room.
        """
        # If that fails too, the worker sees the exit of this process.
        with suppress(OSError):
            self._prefetch.send(packet(outcome), socket.MSG_DONTWAIT)

    def next(self) -> Setup | Run:
        """Wait for the setup or the next run."""
        with self._reading:
            self._in_run = False
        while not self._arrived:
            ready = dict(self._both_poll.poll())
            # The link first: start nothing if the worker has gone.
            if self._link.fileno() in ready:
                self._read()
            elif (run := self._next_prefetched()) is not None:
                self._arrived.append(run)
        message = self._arrived.popleft()
        self._runs += 1
        self._in_run = True
        if not self._active.is_set():
            self._active.set()
        return message

    def _next_prefetched(self) -> Run | None:
        try:
            return receive(self._prefetch)
        except (EOFError, OSError):
            self._end()

    def _run_or_end(self, function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException:  # noqa: BLE001 - no run must continue without this thread
            with suppress(OSError):
                os.write(_STDERR, traceback.format_exc().encode("utf-8", "replace"))
            self._end(1)

    def _listen(self) -> None:
        idle_polls = 0
        while True:
            self._active.wait()
            runs = self._runs
            time.sleep(_SHORT_SEC)
            if self._in_run and self._runs == runs:
                self._read_during_long_runs()
            idle_polls = 0 if self._in_run or self._runs != runs else idle_polls + 1
            if idle_polls > _IDLE_POLLS:
                idle_polls = 0
                self._active.clear()

    def _read_during_long_runs(self) -> None:
        """A live worker requests the progress of a long run several times a second."""
        while self._in_run:
            runs = self._runs
            readable = self._link_poll.poll(self.max_silence_sec * 1000)
            with self._reading:
                # Between runs the main thread reads.
                if not self._in_run:
                    return
                if readable and self._link_poll.poll(0):
                    self._read()
            if not readable and self._in_run and self._runs == runs:
                self._on_silence()

    def _read(self) -> None:
        try:
            data = self._link.recv(_READ_BYTES)
        except OSError:
            # A task has closed the descriptor: there is no way back to the worker.
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
            # Not sys.exit: the main thread may execute a user's task.
            os._exit(code)
