"""The executor process: runs one flow at a time for its worker."""

import faulthandler
import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence

from pyoco_server.aio.garbage_collection import freeze_loaded_code
from pyoco_server.config.process_isolation import close_other_descriptors
from pyoco_server.records.runs.run_models import Reason, RunStatus
from pyoco_server.records.waits.wait_models import encode
from pyoco_server.worker.child.descriptor_output import DescriptorOutput
from pyoco_server.worker.child.executor_link import ExecutorLink
from pyoco_server.worker.child.printed_lines import OutputStream, TaskOutput
from pyoco_server.worker.child.process_state import ProcessState
from pyoco_server.worker.child.run_folder import RunFolder
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.journal.json_values import escape_surrogates
from pyoco_server.worker.engine.pyoco_adapter import check_support
from pyoco_server.worker.engine.tasks.raised_error import raised_fields
from pyoco_server.worker.engine.tasks.task_calls import RetryBackoff, TaskCall
from pyoco_server.worker.flows.flow_source import FlowSource
from pyoco_server.worker.flows.importing import CodeFolders
from pyoco_server.worker.ipc.pipes import die_with_worker
from pyoco_server.worker.ipc.protocol import (
    Asked,
    Cancel,
    FilesStored,
    FilesWritten,
    Finished,
    ForceEnd,
    LimitEnded,
    LimitStarted,
    Outcome,
    Printed,
    Progress,
    Ready,
    Report,
    Run,
    Setup,
    ToExecutor,
)

# How long an exiting executor tries to send the complete outcome; its tasks continue meanwhile.
_REPORT_SEC = 5.0
_REPORT_AFTER_SILENCE_SEC = 1.0


class ExecutorProcess:
    def __init__(
        self, link: socket.socket, prefetch: socket.socket, replies: socket.socket, pipes: tuple[int, int]
    ) -> None:
        self._folder = RunFolder()
        self._link = ExecutorLink(
            link,
            prefetch,
            on_message=self._on_message,
            on_silence=self._on_silence,
            on_end=self._folder.close,
        )
        self._replies = replies
        self._pipes = pipes
        self._current: FlowRun | None = None
        self._to_cancel: str | None = None
        self._report_requested = threading.Event()
        self._file_reports = FileReports(self._link.send)

    def serve(self) -> None:
        self._link.start()
        self._link.start_thread(self._report_progress, "progress")
        setup = self._link.next()
        assert isinstance(setup, Setup)
        self._link.max_silence_sec = setup.max_silence_sec
        output = self._capture_output(setup)
        listener = self._listener(setup, output)
        CodeFolders().use(setup.code_folders)
        try:
            # Before the first run, whose log would contain the warning.
            check_support()
            source = FlowSource.from_setup(setup)
        except Exception as error:  # noqa: BLE001 - importing the user's flows may raise anything
            self._link.send(Ready(error=escape_surrogates(f"{type(error).__name__}: {error}")))
            return
        key = source.code_key(setup.code_folders)
        version = setup.known_versions.get(key) or source.code_version(setup.code_folders)
        ready = Ready(flows=source.names, failures=source.failures, code_version=version, code_key=key)
        if setup.describe_flows:
            ready.flows_of_files = source.flows_of_files
            ready.catalogue = source.described(version, setup.earlier_flows)
        freeze_loaded_code()
        self._link.send(ready)
        state = ProcessState()
        must_restart = False
        while not must_restart:
            run = self._link.next()
            assert isinstance(run, Run)
            taken_at = time.monotonic()
            if run.sent_at is not None and taken_at - run.sent_at > setup.start_within_sec:
                # The worker was paused, or it would have recalled the run.
                self._link.send(Outcome(status=RunStatus.RUNNING, not_started=True))
                continue
            output.begin_run(run.attempt)
            outcome = self._execute(source, run, listener)
            if outcome is None:
                # Another thread reports the end of this run, and then exits.
                threading.Event().wait()
                return
            reusable = self._clean_up(state, outcome)
            output.end_run()
            must_restart = outcome.must_restart = outcome.must_restart or not reusable
            if must_restart:
                # Before the outcome: the worker may kill this process when it has that.
                self._folder.close()
            outcome.took_sec = time.monotonic() - taken_at
            self._link.send(outcome)

    def _capture_output(self, setup: Setup) -> TaskOutput:
        """Capture all output from now on; before any user code is loaded."""
        output = TaskOutput(
            lambda lines: self._link.send(Printed(lines=lines, unfinished=output.unfinished())),
            line_limit=setup.log_line_max_bytes,
            run_limit=setup.log_run_max_bytes,
        )
        sys.stdout = OutputStream(output, "stdout", sys.__stdout__.fileno() if sys.__stdout__ else 1)
        sys.stderr = OutputStream(output, "stderr", sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._output = output
        self._descriptors = DescriptorOutput(output, self._pipes, self._replies, self._link.send)
        self._link.start_thread(self._descriptors.listen, "descriptor-output")
        return output

    def _listener(self, setup: Setup, output: TaskOutput) -> RunListener:
        return RunListener(
            finished=lambda entry: self._link.send(Finished(entry=entry)),
            asked=lambda question: self._link.send(Asked(question=encode(question))),
            stuck=self._exit_with,
            output_tail=output.output_tail,
            note=output.note,
            # In this order: the pipes are read while the task still counts as running.
            watchers=[self._descriptors, output],
            limit_watchers=[_LimitReporter(self._link)],
            backoff=RetryBackoff(setup.task_retry_base_sec, setup.task_retry_max_sec),
            max_value_bytes=setup.journal_value_max_bytes,
            store_files=self._file_reports.report,
            # Blocks while the worker does not read.
            store=self._link.send,
            max_result_bytes=setup.result_max_bytes,
            max_records_bytes=setup.records_max_bytes,
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
                # Cancelled while the flow was being prepared.
                prepared.cancel()
            outcome = prepared.execute()
            is_over = True
            self._current = None
        except BaseException as error:
            if is_over:
                # Raised by a signal handler that the run has left.
                return outcome
            if not isinstance(error, Exception):
                raise
            # An error of the server ends one run, not this process.
            text = escape_surrogates(f"the executor could not run the flow: {type(error).__name__}: {error}")
            reason = Reason.EXECUTION_ERROR
            return Outcome(status=RunStatus.FAILED, reason=reason, error=text, **raised_fields(error))
        finally:
            self._current = None
        return outcome

    def _clean_up(self, state: ProcessState, outcome: Outcome) -> bool:
        """Restore the state of the process; returns whether it can be used for another run."""
        try:
            reusable = state.restore()
            self._descriptors.drain()
            outcome.has_files = self._folder.leave()
        except BaseException:  # noqa: BLE001 - a signal handler that the run has left may raise anything
            return False
        return reusable

    def _on_silence(self) -> None:
        """The worker seems to be paused: by now the run may have another owner."""
        current = self._current
        if current is not None and current.claim_end():
            elsewhere = Outcome(status=RunStatus.RUNNING, must_continue=True)
            self._exit_with(lambda: elsewhere, elsewhere, within_sec=_REPORT_AFTER_SILENCE_SEC)

    def _on_message(self, message: ToExecutor) -> None:
        if isinstance(message, Cancel):
            # Set before `_current` is read, and read after that is set: no request is lost.
            self._to_cancel = message.run_id
        current = self._current
        if isinstance(message, FilesStored):
            self._file_reports.stored(message.number)
        elif isinstance(message, Report):
            self._report_requested.set()
        elif isinstance(message, ForceEnd):
            if current is not None and current.run_id == message.run_id and current.claim_end():
                brief = Outcome(status=message.status, error=message.error, forced=True)
                self._exit_with(lambda: current.forced_outcome(message.status, message.error), brief)
        elif isinstance(message, Cancel) and current is not None and current.run_id == message.run_id:
            current.cancel()

    def _report_progress(self) -> None:
        while True:
            self._report_requested.wait()
            self._report_requested.clear()
            current = self._current
            self._link.send(Progress() if current is None else current.progress())

    def _exit_with(
        self, outcome: Callable[[], Outcome], brief: Outcome, *, within_sec: float = _REPORT_SEC
    ) -> None:
        """Send the outcome of a run whose tasks cannot be stopped, and exit.

        A task may print to a paused worker, and hold the locks that the outcome needs. If the outcome cannot
        be sent in time, its brief form is sent, which needs no lock.
        """
        reported = threading.Event()

        def report() -> None:
            whole = outcome()
            whole.must_restart = True
            try:
                # Without reading the pipes: the worker does that, and may be paused.
                self._output.end_run()
            finally:
                self._link.send(whole)
            reported.set()

        brief.must_restart = True
        try:
            try:
                threading.Thread(target=report, daemon=True).start()
                reported.wait(within_sec)
            finally:
                if not reported.is_set():
                    self._link.send_out_of_band(brief)
            self._folder.close()
        finally:
            # Whatever fails: the task that cannot be stopped ends only with this process.
            os._exit(0)


class FileReports:
    """Reports files to the worker, and waits until it has stored them."""

    def __init__(self, send: Callable[[FilesWritten], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, threading.Event] = {}

    def report(self, task: str, saved: dict[str, str]) -> None:
        number = next(self._numbers)
        stored = self._waiting[number] = threading.Event()
        self._send(FilesWritten(number=number, task=task, saved=saved))
        # As long as it takes: when the worker ends, or the run is ended by force, so does this process.
        stored.wait()

    def stored(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.set()


class _LimitReporter:
    """Reports tasks with a time limit: only the worker can end one that holds the GIL."""

    def __init__(self, link: ExecutorLink) -> None:
        self._link = link

    def began(self, call: TaskCall) -> None:
        if call.timeout_sec:
            self._link.send(
                LimitStarted(
                    key=call.key,
                    task=call.task.name,
                    limit_sec=call.timeout_sec,
                    isolated=call.isolated,
                    started_at=call.started_at,
                )
            )

    def ended(self, call: TaskCall) -> None:
        if call.timeout_sec:
            self._link.send(LimitEnded(key=call.key))


def _ignore(number: int, _: object) -> None:
    """A handler: children would inherit SIG_IGN."""


def run(descriptors: Sequence[int]) -> None:
    """Be an executor. The descriptors: link, prefetch channel, replies, two output pipes, death pipe."""
    # On a signal to the whole service (Ctrl-C, systemd) the worker drains its runs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    faulthandler.enable()
    close_other_descriptors(descriptors)
    die_with_worker(descriptors[5])
    link, prefetch, replies = (socket.socket(fileno=descriptor) for descriptor in descriptors[:3])
    pipes = descriptors[3], descriptors[4]
    for descriptor in pipes:
        os.set_inheritable(descriptor, False)
    with link, prefetch, replies:
        for end in (link, prefetch, replies):
            # A child process must not keep them open, nor read a run.
            end.set_inheritable(False)
            os.register_at_fork(after_in_child=end.close)
        ExecutorProcess(link, prefetch, replies, pipes).serve()


if __name__ == "__main__":
    run([int(number) for number in sys.argv[1:7]])
