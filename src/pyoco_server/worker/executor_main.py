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

from pyoco_server.models import Reason, RunStatus
from pyoco_server.worker.flow_run import FlowRun
from pyoco_server.worker.flow_source import FlowSource
from pyoco_server.worker.protocol import (
    Cancel,
    Frames,
    FromExecutor,
    Outcome,
    Progress,
    Ready,
    Report,
    Run,
    Setup,
    frame,
    message_to_executor,
)
from pyoco_server.worker.values import clean

_READ_BYTES = 256 * 1024


class ExecutorProcess:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[Setup | Run] = queue.SimpleQueue()
        self._current: FlowRun | None = None
        self._to_cancel: str | None = None
        self._start_folder = os.getcwd()
        self._streams = (sys.stdout, sys.stderr)

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="executor-link", daemon=True).start()
        setup = self._inbox.get()
        assert isinstance(setup, Setup)
        try:
            source = FlowSource.from_setup(setup)
        except Exception as error:  # noqa: BLE001 - importing the user's flows may raise anything
            self._send(Ready(error=clean(f"{type(error).__name__}: {error}")))
            return
        self._send(Ready(flows=source.names, failures=source.failures))
        threads = threading.active_count()
        spoilt = False
        while not spoilt:
            run = self._inbox.get()
            assert isinstance(run, Run)
            outcome = self._execute(source, run)
            spoilt = outcome.spoilt = self._is_spoilt(threads)
            self._send(outcome)

    def _execute(self, source: FlowSource, run: Run) -> Outcome:
        try:
            self._enter_folder(run.directory)
            prepared = source.prepare(run)
            if isinstance(prepared, Outcome):
                return prepared
            self._current = prepared
            if self._to_cancel == run.run_id:
                # The wish came while the flow was being prepared.
                prepared.cancel()
            return prepared.execute()
        except Exception as error:  # noqa: BLE001 - a failure of ours ends one run, not this process
            text = clean(f"the executor could not run the flow: {type(error).__name__}: {error}")
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=text)
        finally:
            self._current = None
            os.chdir(self._start_folder)
            _remove_if_empty(run.directory)

    def _enter_folder(self, folder: str | None) -> None:
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
            os.chdir(folder)

    def _is_spoilt(self, threads: int) -> bool:
        """Whether the run left something behind that the next one would suffer from."""
        replaced = (sys.stdout, sys.stderr) != self._streams
        closed = any(stream.closed for stream in self._streams)
        return replaced or closed or threading.active_count() > threads

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
        if isinstance(message, Cancel):
            # Remembered before `_current` is looked at, and read after it is set: no wish falls between.
            self._to_cancel = message.run_id
        current = self._current
        if isinstance(message, Setup | Run):
            self._inbox.put(message)
        elif isinstance(message, Report):
            self._send(Progress() if current is None else current.progress())
        elif current is not None and current.run_id == message.run_id:
            current.cancel()

    def _send(self, message: FromExecutor) -> None:
        with self._sending:
            self._link.sendall(frame(message))


def _remove_if_empty(folder: str | None) -> None:
    """A run that left no files leaves no folder either."""
    if folder is None:
        return
    for empty in (f"{folder}/artifacts", folder, os.path.dirname(folder)):
        with suppress(OSError):
            os.rmdir(empty)


def _ignore(number: int, _: object) -> None:
    """A handler, since children would inherit SIG_IGN itself."""


def main() -> None:
    # A signal to the whole service (Ctrl-C, systemd) is the worker's to handle: it finishes what runs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    faulthandler.enable()
    with socket.socket(fileno=int(sys.argv[1])) as link:
        # A forked child must not hold our end of the link open when we are gone.
        os.register_at_fork(after_in_child=link.close)
        ExecutorProcess(link).serve()


if __name__ == "__main__":
    main()
