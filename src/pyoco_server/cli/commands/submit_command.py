"""`pyoco-client submit` and `submit-yaml`: begin a run, and wait for its end if wanted."""

from pathlib import Path
from typing import Annotated, Final

import typer

from pyoco_server.cli.commands.run_waiting import check_limit, finish_submit
from pyoco_server.cli.entry import examples
from pyoco_server.cli.options import run_params as params
from pyoco_server.cli.options.client_options import (
    ApiKey,
    FlowName,
    IdempotencyKey,
    OutputForm,
    RunLimit,
    Server,
    Tag,
    Wait,
    WaitLimit,
    open_client,
)
from pyoco_server.cli.options.common_options import comma_separated, sendable_text

SUBMIT_EPILOG: Final = examples(
    "pyoco-client submit --flow-name greet --param name=Ada",
    'pyoco-client submit --flow-name greet --params \'{"name": "Ada"}\' --wait',
    "pyoco-client submit --flow-name greet --params-file params.yaml --tag gpu",
)
SUBMIT_YAML_EPILOG: Final = examples(
    "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly",
    "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --wait",
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
