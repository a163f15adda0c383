"""`pyoco-client rerun`: repeat a run that has ended."""

from enum import StrEnum
from typing import Annotated

import typer

from pyoco_server.cli.commands.run_waiting import check_limit, finish_submit
from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import (
    ApiKey,
    OutputForm,
    RepeatKey,
    RunId,
    Server,
    Wait,
    WaitLimit,
    open_client,
)
from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.records.models import RerunMode

EPILOG = examples(
    "pyoco-client rerun --run-id $RUN_ID",
    "pyoco-client rerun --run-id $RUN_ID --from failed --wait",
    "pyoco-client rerun --run-id $RUN_ID --task load",
)


class Beginning(StrEnum):
    START = "start"
    FAILED = "failed"


def rerun(
    ctx: typer.Context,
    *,
    run_id: RunId,
    beginning: Annotated[
        Beginning | None,
        typer.Option(
            "--from",
            help="start (the default): execute everything; failed: go on from what failed.",
            metavar="WHERE",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Execute this task and what follows it, and nothing before it.",
            metavar="NAME",
            parser=sendable_text,
        ),
    ] = None,
    idempotency_key: RepeatKey = None,
    wait: Wait = False,
    timeout_sec: WaitLimit = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Repeat a run that has ended, as a new run of the same flow and params."""
    if beginning is not None and task is not None:
        raise InvalidCliArgument("--from and --task both say where to begin; leave one of them out")
    check_limit(wait, timeout_sec)
    mode = RerunMode.TASK if task is not None else beginning or RerunMode.START
    with open_client(ctx, server, api_key) as client:
        accepted = client.rerun(run_id, mode, task, idempotency_key=idempotency_key)
        finish_submit(client, accepted, wait=wait, timeout_sec=timeout_sec, output=output)
