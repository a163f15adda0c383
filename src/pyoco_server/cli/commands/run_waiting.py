"""What comes after a run was submitted: its id is shown, or its end is waited for."""

from typing import Final

from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.views.console import notes, printable, say
from pyoco_server.cli.views.question_views import ToldQuestions
from pyoco_server.cli.views.run_views import Output, accepted_view, chosen, ended_run_view, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Accepted, Run
from pyoco_server.records.models import RunStatus, TaskStatus

_OPEN: Final = (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.WAITING)


def check_limit(wait: bool, timeout_sec: float | None) -> None:
    if timeout_sec is not None and not wait:
        raise InvalidCliArgument("--timeout-sec limits a wait; add --wait, or leave it out")


def finish_submit(
    client: PyocoHttpClient,
    accepted: Accepted,
    *,
    wait: bool,
    timeout_sec: float | None,
    output: Output | None,
) -> None:
    """Show the accepted run; or wait for its end, show that, and fail unless it is COMPLETED."""
    if not wait:
        show(accepted, output, accepted_view)
        return
    run_id = accepted["run_id"]
    try:
        say(f"Submitted run {run_id}.")
        ended = wait_for_end(client, run_id, timeout_sec)
    except TimeoutError as error:
        raise CommandFailed(f"{error}: pyoco-client get --run-id {run_id}") from None
    except KeyboardInterrupt:
        say(f"No longer waiting; the run goes on: pyoco-client get --run-id {run_id}")
        raise
    form = chosen(output)
    show(_with_records(client, ended) if form is Output.TABLE else ended, form, ended_run_view)
    if ended["status"] != RunStatus.COMPLETED:
        # Who reads the table has read the error in it.
        why = "" if form is Output.TABLE else f": {ended.get('error') or 'no error was recorded'}"
        raise CommandFailed(f"The run is {ended['status']}{why}")


def wait_for_end(client: PyocoHttpClient, run_id: str, timeout_sec: float | None) -> Run:
    """The last snapshot of the run; a person is shown how it goes meanwhile."""
    questions = ToldQuestions()
    with notes().status("Waiting ...") as status:
        for snapshot in client.follow(run_id, timeout_sec):
            for line in questions.new_in(snapshot):
                say(line)
            ended = sum(state not in _OPEN for state in snapshot["tasks"].values())
            progress = f"{ended} of {len(snapshot['tasks'])} tasks" if snapshot["tasks"] else "no task yet"
            status.update(printable(f"{snapshot['flow_name']} is {snapshot['status']}, {progress}"))
    return snapshot


def _with_records(client: PyocoHttpClient, run: Run) -> Run:
    try:
        return client.get_run(run["run_id"], ["records"])
    except (GatewayUnreachable, PyocoHttpError) as error:
        # The run has ended and how is known: the command does not fail for what it would show beside that.
        say(f"What the tasks returned cannot be shown: {error}")
        return run
