"""`pyoco-client submit` and `submit-yaml`."""

from pathlib import Path
from typing import Annotated

from pyoco_server.cli.commands.runs.run_waiting import WaitOptions, finish_submit
from pyoco_server.cli.commands.workers.flow_completion import complete_flow
from pyoco_server.cli.options.client_options import (
    IdempotencyKey,
    RunLimit,
    StartOptions,
    Tag,
    client_command,
)
from pyoco_server.cli.options.param_options import ParamsFile, ParamsJson, SingleParams, Strict, merged_params
from pyoco_server.cli.options.shared_options import comma_separated, option, text_option
from pyoco_server.http_client import PyocoHttpClient


@client_command(
    "pyoco-client submit --flow-name greet --param name=Ada",
    'pyoco-client submit --flow-name greet --params \'{"name": "Ada"}\' --wait',
    "pyoco-client submit --flow-name greet --params-file params.yaml --tag gpu",
    "pyoco-client submit --flow-name greet --in 2h",
    "pyoco-client submit --flow-name greet --param name=Ada --wait --result",
    start=StartOptions,
    waiting=WaitOptions,
)
def submit(
    client: PyocoHttpClient,
    *,
    flow_name: Annotated[str, text_option("Flow name.", autocompletion=complete_flow)],
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: SingleParams = None,
    tag: Tag = None,
    tags: Annotated[
        str | None, text_option("Comma-separated labels for searching and filtering.", "A,B")
    ] = None,
    strict: Strict = False,
    run_timeout_sec: RunLimit = None,
    start: StartOptions,
    idempotency_key: IdempotencyKey = None,
    waiting: WaitOptions,
) -> None:
    accepted = client.submit_run(
        flow_name,
        merged_params(params_file, params_json, param),
        tag,
        comma_separated(tags) or None,
        timeout_sec=run_timeout_sec,
        start_at=start.start_at,
        delay_sec=start.delay_sec,
        strict=strict,
        idempotency_key=idempotency_key,
    )
    finish_submit(client, accepted, waiting)


@client_command(
    "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly",
    "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --wait",
    "pyoco-client submit-yaml --workflow-file flow.yaml --flow-name nightly --at 2027-01-31T09:00",
    start=StartOptions,
    waiting=WaitOptions,
)
def submit_yaml(
    client: PyocoHttpClient,
    *,
    workflow_file: Annotated[
        Path, option("The flow.yaml to run.", "FILE", exists=True, dir_okay=False, readable=True)
    ],
    flow_name: Annotated[str, text_option("Flow name to record the run under.")],
    tag: Tag = None,
    run_timeout_sec: RunLimit = None,
    start: StartOptions,
    idempotency_key: IdempotencyKey = None,
    waiting: WaitOptions,
) -> None:
    accepted = client.submit_run_yaml(
        workflow_file.read_bytes(),
        flow_name,
        tag,
        timeout_sec=run_timeout_sec,
        start_at=start.start_at,
        delay_sec=start.delay_sec,
        idempotency_key=idempotency_key,
    )
    finish_submit(client, accepted, waiting)
