"""Waiting for the end of a run that was submitted or cancelled."""

from dataclasses import dataclass
from typing import Annotated

from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.options.client_options import OutputOption, WaitLimit
from pyoco_server.cli.options.shared_options import flag
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import (
    OutputFormat,
    effective_format,
    print_note,
    printable,
    show,
    stderr_console,
)
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.result_output import write_result
from pyoco_server.cli.views.run_views import (
    OPEN_TASK_STATES,
    NewQuestions,
    accepted_view,
    ended_run_view,
    task_progress,
)
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Accepted, Run
from pyoco_server.records.runs.run_models import RunStatus


def check_wait_limit(wait: bool, timeout_sec: float | None) -> None:
    if timeout_sec is not None and not wait:
        raise InvalidCliArgument("--timeout-sec limits --wait; add --wait, or omit it")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """Whether a submit waits for the end of its run, and how the result is shown."""

    wait: Annotated[bool, flag("--wait", "Wait until the run ends; exit 0 only if it is COMPLETED.")] = False
    timeout_sec: WaitLimit = None
    result: Annotated[bool, flag("--result", "With --wait: print what the run returned, and only that.")] = (
        False
    )
    output: OutputOption = None

    def __post_init__(self) -> None:
        check_wait_limit(self.wait, self.timeout_sec)
        if self.result and not self.wait:
            raise InvalidCliArgument("--result needs the end of the run; add --wait")
        if self.result and self.output is not None:
            raise InvalidCliArgument("--result prints the value as it is; omit --output")


def finish_submit(client: PyocoHttpClient, accepted: Accepted, waiting: WaitOptions) -> None:
    """Show the accepted run; or wait until it ends, show it, and fail unless it is COMPLETED."""
    for warning in accepted.get("warnings", []):
        print_note(localized("Warning: {message}", message=warning["message"]))
    if not waiting.wait:
        show(accepted, waiting.output, accepted_view)
        return
    run_id = accepted["run_id"]
    look = with_server(f"pyoco-client get {run_id}")
    try:
        print_note(localized("Submitted run {run_id}.", run_id=run_id))
        ended = wait_for_end(client, run_id, waiting.timeout_sec, hint=f": {look}")
    except KeyboardInterrupt:
        print_note(localized("Stopped waiting; the run continues: {command}", command=look))
        raise
    if waiting.result:
        fail_unless_completed(ended, with_error=True)
        write_result(client, run_id, None, None)
        return
    output = effective_format(waiting.output)
    show(_with_records(client, ended) if output is OutputFormat.TABLE else ended, output, ended_run_view)
    # The table shows the error itself.
    fail_unless_completed(ended, with_error=output is not OutputFormat.TABLE)


def fail_unless_completed(run: Run, *, with_error: bool) -> None:
    if run["status"] != RunStatus.COMPLETED:
        error = f": {run.get('error') or localized('no error was recorded')}" if with_error else ""
        raise CommandFailed(localized("The run is {status}", status=run["status"]) + error)


def wait_for_end(client: PyocoHttpClient, run_id: str, timeout_sec: float | None, *, hint: str = "") -> Run:
    """The last snapshot of the run; a terminal shows its progress meanwhile."""
    questions = NewQuestions()
    try:
        with stderr_console().status(localized("Waiting ...")) as status:
            for snapshot in client.follow(run_id, timeout_sec):
                for line in questions.lines(snapshot):
                    print_note(line)
                states = snapshot["tasks"].values()
                finished = sum(state not in OPEN_TASK_STATES for state in states)
                progress = task_progress(finished, len(states)) if states else localized("no task yet")
                status.update(printable(f"{snapshot['flow_name']} {snapshot['status']}, {progress}"))
    except TimeoutError as error:
        raise CommandFailed(f"{error}{hint}") from None
    return snapshot


def _with_records(client: PyocoHttpClient, run: Run) -> Run:
    try:
        return client.get_run(run["run_id"], ["records"])
    except (GatewayUnreachable, PyocoHttpError) as error:
        # The outcome of the run is known: the command does not fail.
        print_note(localized("Cannot show what the tasks returned: {error}", error=error))
        return run
