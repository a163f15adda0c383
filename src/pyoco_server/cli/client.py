"""`pyoco-client`: submit a run, look at it, stop it, repeat it."""

from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli import logs, params, rerun
from pyoco_server.cli.client_options import (
    ApiKey,
    FlowName,
    GatewayAddress,
    IdempotencyKey,
    OutputForm,
    RunId,
    RunLimit,
    Server,
    Tag,
    Wait,
    WaitLimit,
    open_client,
)
from pyoco_server.cli.entry import Version, examples, new_app, run
from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.options import comma_separated, sendable_text
from pyoco_server.cli.run_views import run_view, show, tasks_view
from pyoco_server.cli.run_waiting import check_limit, finish_submit, wait_for_end

app = new_app(
    no_args_is_help=True,
    help="Submit runs to a pyoco-server gateway, look at them, stop and repeat them.",
    epilog=examples(
        "pyoco-client submit --flow-name greet --param name=Ada --wait",
        "pyoco-client get --run-id $RUN_ID",
    ),
)


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
    run_timeout_sec: RunLimit = None,
    idempotency_key: IdempotencyKey = None,
    wait: Wait = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Submit a run of a flow that the workers have."""
    check_limit(wait, timeout_sec)
    with open_client(ctx, server, api_key) as client:
        accepted = client.submit_run(
            flow_name,
            params.merged(params_file, params_json, param),
            tag,
            comma_separated(tags) or None,
            timeout_sec=run_timeout_sec,
            idempotency_key=idempotency_key,
        )
        finish_submit(client, accepted, wait=wait, timeout_sec=timeout_sec, output=output)


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
    run_timeout_sec: RunLimit = None,
    idempotency_key: IdempotencyKey = None,
    wait: Wait = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Submit a flow.yaml as a run; its params are the file's own defaults."""
    check_limit(wait, timeout_sec)
    with open_client(ctx, server, api_key) as client:
        accepted = client.submit_run_yaml(
            workflow_file.read_bytes(),
            flow_name,
            tag,
            timeout_sec=run_timeout_sec,
            idempotency_key=idempotency_key,
        )
        finish_submit(client, accepted, wait=wait, timeout_sec=timeout_sec, output=output)


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
    with open_client(ctx, server, api_key) as client:
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
    with open_client(ctx, server, api_key) as client:
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
    check_limit(wait, timeout_sec)
    with open_client(ctx, server, api_key) as client:
        run = client.cancel_run(run_id, reason)
        if wait:
            try:
                run = wait_for_end(client, run_id, timeout_sec)
            except TimeoutError as error:
                raise CommandFailed(str(error)) from None
        show(run, output, run_view)


app.command(epilog=logs.EPILOG)(logs.logs)
app.command(epilog=rerun.EPILOG)(rerun.rerun)


def main() -> None:
    run(app, "pyoco-client")


if __name__ == "__main__":
    main()
