"""The executor process: runs one flow at a time for the worker at the other end of its sockets."""

import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from pyoco_server.records.models import Reason, RunStatus
from pyoco_server.records.wait_models import encode
from pyoco_server.system.garbage import spare_loaded_code
from pyoco_server.worker.child.code_folders import CodeFolders
from pyoco_server.worker.child.descriptor_output import DescriptorOutput
from pyoco_server.worker.child.executor_link import ExecutorLink
from pyoco_server.worker.child.process_state import ProcessState
from pyoco_server.worker.child.run_folder import RunFolder
from pyoco_server.worker.child.task_output import OutputStream, TaskOutput
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.json_values import clean
from pyoco_server.worker.engine.task_calls import RetryPauses, TaskCall
from pyoco_server.worker.flows.flow_source import FlowSource
from pyoco_server.worker.ipc.death_pipe import die_with_worker
from pyoco_server.worker.ipc.protocol import (
    Abandon,
    Asked,
    Cancel,
    Finished,
    Limited,
    Outcome,
    Printed,
    Progress,
    Ready,
    Report,
    Run,
    Setup,
    ToExecutor,
    Unlimited,
)

# How long an executor that leaves tries to report the whole outcome; its tasks go on meanwhile.
_REPORT_SEC = 5.0
_REPORT_AFTER_SILENCE_SEC = 1.0


class ExecutorProcess:
    def __init__(
        self, link: socket.socket, ahead: socket.socket, returned: socket.socket, pipes: tuple[int, int]
    ) -> None:
        self._link = ExecutorLink(
            link, ahead, on_message=self._obey, on_silence=self._on_silence, on_end=self._on_end
        )
        self._returned = returned
        self._pipes = pipes
        self._current: FlowRun | None = None
        self._to_cancel: str | None = None
        self._folder = RunFolder()
        self._report_requested = threading.Event()

    def serve(self) -> None:
        self._link.start()
        self._link.start_thread(self._report_progress, "progress")
        setup = self._link.next()
        assert isinstance(setup, Setup)
        self._link.max_silence_sec = setup.max_silence_sec
        output = self._hear_output(setup)
        listener = self._listener(setup, output)
        CodeFolders().use(setup.code_folders)
        try:
            source = FlowSource.from_setup(setup)
        except Exception as error:  # noqa: BLE001 - importing the user's flows may raise anything
            self._link.send(Ready(error=clean(f"{type(error).__name__}: {error}")))
            return
        spare_loaded_code()
        self._link.send(Ready(flows=source.names, failures=source.failures))
        state = ProcessState()
        spoilt = False
        while not spoilt:
            run = self._link.next()
            assert isinstance(run, Run)
            taken_at = time.monotonic()
            if run.sent_at is not None and taken_at - run.sent_at > setup.begin_within_sec:
                # The worker was paused, or it would have taken the run back.
                self._link.send(Outcome(status=RunStatus.RUNNING, not_begun=True))
                continue
            output.begin_run(run.attempt)
            outcome = self._execute(source, run, listener)
            if outcome is None:
                # Another thread reports the end of this run, and ends the process after that.
                threading.Event().wait()
                return
            reusable = self._clean_up(state)
            output.end_run()
            spoilt = outcome.spoilt = not reusable
            if spoilt:
                # Before it is said: the worker may end this process as soon as it hears of it.
                self._folder.close()
            outcome.took_sec = time.monotonic() - taken_at
            self._link.send(outcome)

    def _hear_output(self, setup: Setup) -> TaskOutput:
        """Have all that is printed from now on cut into lines; before any code of the user is loaded."""
        output = TaskOutput(
            lambda lines: self._link.send(Printed(lines=lines, unfinished=output.unfinished())),
            line_limit=setup.log_line_max_bytes,
            run_limit=setup.log_run_max_bytes,
        )
        sys.stdout = OutputStream(output, "stdout", sys.__stdout__.fileno() if sys.__stdout__ else 1)
        sys.stderr = OutputStream(output, "stderr", sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._output = output
        self._descriptors = DescriptorOutput(output, self._pipes, self._returned, self._link.send)
        self._link.start_thread(self._descriptors.listen, "descriptor-output")
        return output

    def _listener(self, setup: Setup, output: TaskOutput) -> RunListener:
        return RunListener(
            finished=lambda entry: self._link.send(Finished(entry=entry)),
            asked=lambda question: self._link.send(Asked(question=encode(question))),
            stuck=self._leave_with,
            tail_of=output.tail_of,
            note=output.note,
            # In this order: what is in the pipes is read while the task that wrote it counts as running.
            watchers=[self._descriptors, output],
            limits=[_LimitTeller(self._link)],
            pauses=RetryPauses(setup.task_retry_base_sec, setup.task_retry_max_sec),
            max_value_bytes=setup.journal_value_max_bytes,
        )

    def _execute(self, source: FlowSource, run: Run, listener: RunListener) -> Outcome | None:
        outcome: Outcome | None = None
        is_over = False
        try:
            self._folder.enter(run.directory)
            prepared = source.prepare(run, listener)
            if isinstance(prepared, Outcome):
                return prepared
            self._current = prepared
            if self._to_cancel == run.run_id:
                # The wish came while the flow was being prepared.
                prepared.cancel()
            outcome = prepared.execute()
            is_over = True
            self._current = None
        except BaseException as error:
            if is_over:
                # A signal handler that the run left behind has raised it.
                return outcome
            if not isinstance(error, Exception):
                raise
            # A failure of ours ends one run, not this process.
            text = clean(f"the executor could not run the flow: {type(error).__name__}: {error}")
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=text)
        finally:
            self._current = None
        return outcome

    def _clean_up(self, state: ProcessState) -> bool:
        """Whether the next run finds this process as the last one did; the last one's outcome stands."""
        try:
            reusable = state.restore()
            self._descriptors.drain()
            self._folder.leave()
        except BaseException:  # noqa: BLE001 - a signal handler that the run left behind may raise anything
            return False
        return reusable

    def _on_silence(self) -> None:
        """The worker was paused, it seems: by now somebody else may have been given the run."""
        current = self._current
        if current is not None and current.preempt():
            go_on = Outcome(status=RunStatus.RUNNING, go_on=True)
            self._leave_with(lambda: go_on, go_on, within_sec=_REPORT_AFTER_SILENCE_SEC)

    def _on_end(self) -> None:
        self._folder.close()

    def _obey(self, message: ToExecutor) -> None:
        if isinstance(message, Cancel):
            # Remembered before `_current` is looked at, and read after it is set: no wish falls between.
            self._to_cancel = message.run_id
        current = self._current
        if isinstance(message, Report):
            self._report_requested.set()
        elif isinstance(message, Abandon):
            if current is not None and current.run_id == message.run_id and current.preempt():
                brief = Outcome(status=message.status, error=message.error, by_force=True)
                self._leave_with(lambda: current.given_up(message.status, message.error), brief)
        elif isinstance(message, Cancel) and current is not None and current.run_id == message.run_id:
            current.cancel()

    def _report_progress(self) -> None:
        while True:
            self._report_requested.wait()
            self._report_requested.clear()
            current = self._current
            self._link.send(Progress() if current is None else current.progress())

    def _leave_with(
        self, outcome: Callable[[], Outcome], brief: Outcome, *, within_sec: float = _REPORT_SEC
    ) -> None:
        """Report the outcome of a run whose tasks cannot be stopped, and end the process with them.

        A task may print to a worker that is paused, and hold the locks that a report needs. What cannot be
        sent in time is sent in its brief form, which waits for nothing.
        """
        reported = threading.Event()

        def report() -> None:
            whole = outcome()
            whole.spoilt = True
            try:
                # What is in the pipes is read by the worker, which may be paused: do not wait for it here.
                self._output.end_run()
            finally:
                self._link.send(whole)
            reported.set()

        brief.spoilt = True
        try:
            try:
                threading.Thread(target=report, daemon=True).start()
                reported.wait(within_sec)
            finally:
                if not reported.is_set():
                    self._link.send_apart(brief)
            self._folder.close()
        finally:
            # Whatever fails here: as long as this process lives, so does the task that cannot be stopped.
            os._exit(0)


class _LimitTeller:
    """Tells the worker of tasks with a time limit: it can end one that holds the GIL, and we cannot."""

    def __init__(self, link: ExecutorLink) -> None:
        self._link = link

    def began(self, call: TaskCall) -> None:
        if call.timeout_sec:
            self._link.send(
                Limited(
                    key=call.key,
                    task=call.task.name,
                    limit_sec=call.timeout_sec,
                    isolated=call.isolated,
                    started_at=call.started_at,
                )
            )

    def ended(self, call: TaskCall) -> None:
        if call.timeout_sec:
            self._link.send(Unlimited(key=call.key))


def _ignore(number: int, _: object) -> None:
    """A handler, since children would inherit SIG_IGN itself."""


def main() -> None:
    # A signal to the whole service (Ctrl-C, systemd) is the worker's to handle: it finishes what runs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    faulthandler.enable()
    die_with_worker(int(sys.argv[6]))
    link, ahead, returned = (socket.socket(fileno=int(number)) for number in sys.argv[1:4])
    pipes = int(sys.argv[4]), int(sys.argv[5])
    for descriptor in pipes:
        os.set_inheritable(descriptor, False)
    with link, ahead, returned:
        for ours in (link, ahead, returned):
            # A child must not hold our ends open when we are gone, nor take a run.
            ours.set_inheritable(False)
            os.register_at_fork(after_in_child=ours.close)
        ExecutorProcess(link, ahead, returned, pipes).serve()


if __name__ == "__main__":
    main()
