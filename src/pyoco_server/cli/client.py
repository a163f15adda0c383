"""`pyoco-client`: submit a run, and look at it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli import params
from pyoco_server.cli.console import notes, printable, say, terminal_language
from pyoco_server.cli.entry import Version, examples, new_app, run
from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.options import comma_separated, sendable_text
from pyoco_server.cli.run_views import (
    Output,
    accepted_view,
    chosen,
    ended_run_view,
    run_view,
    show,
    tasks_view,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.models import RunStatus, is_run_id

app = new_app(
    no_args_is_help=True,
    help="Submit runs to a pyoco-server gateway, and look at them.",
    epilog=examples(
        "pyoco-client submit --flow-name greet --param name=Ada --wait",
        "pyoco-client get --run-id $RUN_ID",
    ),
)


def _checked_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        raise typer.BadParameter(f"{run_id!r}: wanted the id of a run, as `submit` gives it")
    return run_id


Server = Annotated[
    str | None,
    typer.Option(
        help="The gateway's address (PYOCO_SERVER; http://127.0.0.1:8000).", metavar="URL", show_default=False
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        help="The API key, where the gateway asks for one (PYOCO_API_KEY).", metavar="KEY", show_default=False
    ),
]
OutputForm = Annotated[
    Output | None,
    typer.Option(
        help="json or table (default: table on a terminal, json otherwise).",
        metavar="FORM",
        show_default=False,
    ),
]
FlowName = Annotated[str, typer.Option(help="The name of the flow.", metavar="NAME", parser=sendable_text)]
RunId = Annotated[str, typer.Option(help="The id that `submit` gave.", metavar="ID", parser=_checked_run_id)]
Tag = Annotated[
    str | None,
    typer.Option(
        help="Which workers may execute the run: those with this tag.", metavar="TAG", parser=sendable_text
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for the run's end; exit 0 only if it is COMPLETED.", metavar="")
]
WaitLimit = Annotated[
    float | None,
    typer.Option(help="With --wait: how long at most; the run goes on.", metavar="SECONDS", min=0),
]


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """What was said before the subcommand; the same options after it win."""

    server: str | None = None
    api_key: str | None = None

    def open(self, server: str | None, api_key: str | None) -> PyocoHttpClient:
        config = NatsBackendConfig.from_env()
        try:
            return PyocoHttpClient(
                server or self.server or config.server,
                api_key=api_key or self.api_key or config.api_key or None,
                api_key_header=config.http_api_key_header,
                language=terminal_language(),
            )
        except ValueError as error:
            raise InvalidCliArgument(str(error)) from error


@app.callback()
def client(
    ctx: typer.Context, server: Server = None, api_key: ApiKey = None, version: Version = False
) -> None:
    ctx.obj = GatewayAddress(server, api_key)


@app.command(
    epilog=examples(
        "pyoco-client submit --flow-name greet --param name=Ada",
        'pyoco-client submit --flow-name greet --params \'{"name": "Ada"}\' --wait',
        "pyoco-client submit --flow-name greet --params-file params.yaml --tag gpu",
    )
)
def submit(
    ctx: typer.Context,
    *,
    flow_name: FlowName,
    params_file: Annotated[
        params.Params | None,
        typer.Option(help="Params from a JSON or YAML file.", metavar="FILE", parser=params.from_file),
    ] = None,
    params_json: Annotated[
        params.Params | None,
        typer.Option(
            "--params",
            help="Params as a JSON object; wins over the file.",
            metavar="JSON",
            parser=params.from_json,
        ),
    ] = None,
    param: Annotated[
        list[params.Params] | None,
        typer.Option(
            help="One of the params, JSON or text; repeatable; wins over both.",
            metavar="KEY=VALUE",
            parser=params.from_pair,
        ),
    ] = None,
    tag: Tag = None,
    tags: Annotated[
        str | None,
        typer.Option(
            help="Labels to find the run by, separated by commas.", metavar="A,B", parser=sendable_text
        ),
    ] = None,
    wait: Wait = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Submit a run of a flow that the workers have."""
    _check_limit(wait, timeout_sec)
    with _open(ctx, server, api_key) as client:
        accepted = client.submit_run(
            flow_name, params.merged(params_file, params_json, param), tag, comma_separated(tags) or None
        )
        _finish_submit(client, accepted, wait=wait, timeout_sec=timeout_sec, output=output)


@app.command(
    epilog=examples(
        "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly",
        "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --wait",
    )
)
def submit_yaml(
    ctx: typer.Context,
    *,
    workflow_file: Annotated[
        Path,
        typer.Option(
            help="The flow.yaml to run.", metavar="FILE", exists=True, dir_okay=False, readable=True
        ),
    ],
    flow_name: Annotated[
        str,
        typer.Option(help="The name the run is kept under.", metavar="NAME", parser=sendable_text),
    ],
    tag: Tag = None,
    wait: Wait = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Submit a flow.yaml as a run; its params are the file's own defaults."""
    _check_limit(wait, timeout_sec)
    with _open(ctx, server, api_key) as client:
        accepted = client.submit_run_yaml(workflow_file.read_bytes(), flow_name, tag)
        _finish_submit(client, accepted, wait=wait, timeout_sec=timeout_sec, output=output)


@app.command(
    epilog=examples(
        "pyoco-client get --run-id $RUN_ID",
        "pyoco-client get --run-id $RUN_ID --include records",
    )
)
def get(
    ctx: typer.Context,
    *,
    run_id: RunId,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="What to add: records, full or all; repeatable.", metavar="WHAT", parser=sendable_text
        ),
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show the newest snapshot of a run."""
    with _open(ctx, server, api_key) as client:
        show(client.get_run(run_id, include or ()), output, run_view)


@app.command(epilog=examples("pyoco-client tasks --run-id $RUN_ID"))
def tasks(
    ctx: typer.Context,
    *,
    run_id: RunId,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show the tasks of a run: their states, results and errors."""
    with _open(ctx, server, api_key) as client:
        show(client.get_tasks(run_id), output, tasks_view)


@app.command(
    epilog=examples(
        "pyoco-client cancel --run-id $RUN_ID",
        'pyoco-client cancel --run-id $RUN_ID --reason "wrong input" --wait',
    )
)
def cancel(
    ctx: typer.Context,
    *,
    run_id: RunId,
    reason: Annotated[
        str | None,
        typer.Option(help="Why, for whoever looks at the run.", metavar="TEXT", parser=sendable_text),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for the run's end; exit 0 once it has ended.", metavar=""),
    ] = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Ask a run to stop; one that has ended stays as it is."""
    _check_limit(wait, timeout_sec)
    with _open(ctx, server, api_key) as client:
        run = client.cancel_run(run_id, reason)
        if wait:
            try:
                run = _wait(client, run_id, timeout_sec)
            except TimeoutError as error:
                raise CommandFailed(str(error)) from None
        show(run, output, run_view)


def _open(ctx: typer.Context, server: str | None, api_key: str | None) -> PyocoHttpClient:
    address = ctx.obj
    assert isinstance(address, GatewayAddress)
    return address.open(server, api_key)


def _check_limit(wait: bool, timeout_sec: float | None) -> None:
    if timeout_sec is not None and not wait:
        raise InvalidCliArgument("--timeout-sec limits a wait; add --wait, or leave it out")


def _finish_submit(
    client: PyocoHttpClient,
    accepted: dict[str, Any],
    *,
    wait: bool,
    timeout_sec: float | None,
    output: Output | None,
) -> None:
    if not wait:
        show(accepted, output, accepted_view)
        return
    run_id = accepted["run_id"]
    say(f"Submitted run {run_id}.")
    try:
        ended = _wait(client, run_id, timeout_sec)
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


def _with_records(client: PyocoHttpClient, run: dict[str, Any]) -> dict[str, Any]:
    try:
        return client.get_run(run["run_id"], ["records"])
    except (GatewayUnreachable, PyocoHttpError) as error:
        # The run has ended and how is known: the command does not fail for what it would show beside that.
        say(f"What the tasks returned cannot be shown: {error}")
        return run


def _wait(client: PyocoHttpClient, run_id: str, timeout_sec: float | None) -> dict[str, Any]:
    snapshot: dict[str, Any] = {}
    with notes().status("Waiting ...") as status:
        for snapshot in client.follow(run_id, timeout_sec):
            ended = sum(state not in ("PENDING", "RUNNING") for state in snapshot["tasks"].values())
            progress = f"{ended} of {len(snapshot['tasks'])} tasks" if snapshot["tasks"] else "no task yet"
            status.update(printable(f"{snapshot['flow_name']} is {snapshot['status']}, {progress}"))
    return snapshot


def main() -> None:
    run(app, "pyoco-client")


if __name__ == "__main__":
    main()
