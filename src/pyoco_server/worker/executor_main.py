"""The executor process: runs one flow at a time for the worker at the other end of its socket.

The main thread runs flows; a second one listens, so that a running flow can be asked to report or to
stop. When the worker goes away the socket ends, and so does this process: no run outlives its owner.
"""

import faulthandler
import os
import queue
import signal
import socket
import sys
import threading
from contextlib import suppress

from pyoco_server.worker.flow_run import FlowRun
from pyoco_server.worker.flow_source import FlowSource
from pyoco_server.worker.protocol import (
    Cancel,
    Frames,
    FromExecutor,
    Outcome,
    Ready,
    Report,
    Run,
    Setup,
    frame,
    message_to_executor,
)

_READ_BYTES = 256 * 1024


class ExecutorProcess:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[Setup | Run] = queue.SimpleQueue()
        self._current: FlowRun | None = None
        self._start_folder = os.getcwd()

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="executor-link", daemon=True).start()
        setup = self._inbox.get()
        assert isinstance(setup, Setup)
        try:
            source = FlowSource.from_setup(setup)
        except Exception as error:  # noqa: BLE001 - importing the user's flows may raise anything
            self._send(Ready(error=f"{type(error).__name__}: {error}"))
            return
        self._send(Ready(flows=source.names, failures=source.failures))
        while True:
            run = self._inbox.get()
            assert isinstance(run, Run)
            self._send(self._execute(source, run))

    def _execute(self, source: FlowSource, run: Run) -> Outcome:
        if run.directory is not None:
            os.makedirs(run.directory, exist_ok=True)
            os.chdir(run.directory)
        try:
            prepared = source.prepare(run)
            if isinstance(prepared, Outcome):
                return prepared
            self._current = prepared
            return prepared.execute()
        finally:
            self._current = None
            if run.directory is not None:
                os.chdir(self._start_folder)
                _remove_if_empty(run.directory)

    def _listen(self) -> None:
        frames = Frames()
        try:
            while data := self._link.recv(_READ_BYTES):
                for body in frames.feed(data):
                    self._obey(message_to_executor(body))
        finally:
            # Not sys.exit: the main thread is inside a user's task.
            os._exit(0)

    def _obey(self, message: Setup | Run | Cancel | Report) -> None:
        current = self._current
        if isinstance(message, Setup | Run):
            self._inbox.put(message)
        elif current is not None and isinstance(message, Cancel):
            current.cancel()
        elif current is not None:
            self._send(current.progress())

    def _send(self, message: FromExecutor) -> None:
        with self._sending:
            self._link.sendall(frame(message))


def _remove_if_empty(folder: str) -> None:
    """A run that left no files leaves no folder either."""
    for empty in (f"{folder}/artifacts", folder):
        with suppress(OSError):
            os.rmdir(empty)


def main() -> None:
    # Ctrl-C is the worker's to handle; it decides when an executor ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    with socket.socket(fileno=int(sys.argv[1])) as link:
        ExecutorProcess(link).serve()


if __name__ == "__main__":
    main()
