"""`pyoco-client` commands on one run: get, tasks, result, explain, cancel, rerun, retry."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pyoco_server.cli.commands.runs.run_waiting import (
    WaitOptions,
    check_wait_limit,
    finish_submit,
    wait_for_end,
)
from pyoco_server.cli.options.client_options import (
    OutputOption,
    RepeatKey,
    RunIdArgument,
    RunIdOption,
    StartOptions,
    WaitLimit,
    client_command,
    required_run_id,
)
from pyoco_server.cli.options.param_options import (
    Params,
    ParamsFile,
    ParamsJson,
    Strict,
    merged_params,
    params_from_pair,
)
from pyoco_server.cli.options.shared_options import flag, option, text_option
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import OutputFormat, effective_format, print_note, printable, show
from pyoco_server.cli.views.copied_commands import command_line
from pyoco_server.cli.views.result_output import write_result
from pyoco_server.cli.views.run_views import run_view, tasks_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Explanation, Finding
from pyoco_server.records.runs.run_models import TERMINAL, RerunMode


class Start(StrEnum):
    START = "start"
    FAILED = "failed"


From = Annotated[
    Start | None,
    option(
        "start (default): execute every task; failed: only tasks that failed or never ran.",
        "WHERE",
        "--from",
        show_default=False,
    ),
]
KeepAnswers = Annotated[
    bool, flag("--keep-answers", "Use the answers of people again; ask only questions that have changed.")
]
ChangedParams = Annotated[
    list[Params] | None,
    option(
        "Change a single param (JSON or text) and keep the others; repeatable. With --params or "
        "--params-file, overrides those.",
        "KEY=VALUE",
        "--param",
        parser=params_from_pair,
    ),
]
CancelReason = Annotated[str | None, text_option("Reason, recorded with the run.", "TEXT")]


@client_command("pyoco-client get $RUN_ID", "pyoco-client get $RUN_ID --include records")
def get(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    include: Annotated[
        list[str] | None,
        text_option(
            "Extra parts to include: records, full or all; repeatable.",
            "WHAT",
            autocompletion=lambda: ["records", "full", "all"],
        ),
    ] = None,
    output: OutputOption = None,
) -> None:
    run_id = required_run_id(run, run_id)
    found = client.get_run(run_id, include or ())
    why = None
    if effective_format(output) is OutputFormat.TABLE and found["status"] not in TERMINAL:
        try:
            why = client.explain(run_id)
        except (GatewayUnreachable, PyocoHttpError) as error:
            print_note(localized("Cannot show why the run has not ended: {error}", error=error))
    show(
        found,
        output,
        lambda found: Group(run_view(found), Text(), explanation_view(why)) if why else run_view(found),
    )


@client_command("pyoco-client tasks $RUN_ID")
def tasks(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    show(client.get_tasks(required_run_id(run, run_id)), output, tasks_view)


@client_command(
    "pyoco-client result $RUN_ID",
    "pyoco-client result $RUN_ID --task load --output rows.json",
)
def result(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    task: Annotated[str | None, text_option("What this task returned, in place of the result.")] = None,
    output: Annotated[
        Path | None, option("Save it in this file (default: the standard output).", "FILE", dir_okay=False)
    ] = None,
) -> None:
    write_result(client, required_run_id(run, run_id), task, output)


@client_command("pyoco-client explain $RUN_ID")
def explain(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    show(client.explain(required_run_id(run, run_id)), output, explanation_view)


@client_command(
    "pyoco-client cancel $RUN_ID",
    'pyoco-client cancel $RUN_ID --reason "wrong input" --wait',
)
def cancel(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    reason: CancelReason = None,
    wait: Annotated[bool, flag("--wait", "Wait until the run ends; exit 0 once it has ended.")] = False,
    timeout_sec: WaitLimit = None,
    output: OutputOption = None,
) -> None:
    check_wait_limit(wait, timeout_sec)
    run_id = required_run_id(run, run_id)
    cancelled = client.cancel_run(run_id, reason)
    show(wait_for_end(client, run_id, timeout_sec) if wait else cancelled, output, run_view)


@client_command(
    "pyoco-client rerun $RUN_ID",
    "pyoco-client rerun $RUN_ID --from failed --wait",
    "pyoco-client rerun $RUN_ID --task load",
    "pyoco-client rerun $RUN_ID --param region=eu",
    "pyoco-client rerun $RUN_ID --from failed --keep-answers",
    "pyoco-client rerun $RUN_ID --in 30m",
    later=StartOptions,
    waiting=WaitOptions,
)
def rerun(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    start: From = None,
    task: Annotated[str | None, text_option("Execute this task and its downstream tasks only.")] = None,
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: ChangedParams = None,
    strict: Strict = False,
    keep_answers: KeepAnswers = False,
    later: StartOptions,
    idempotency_key: RepeatKey = None,
    waiting: WaitOptions,
) -> None:
    if start is not None and task is not None:
        raise InvalidCliArgument("use either --from or --task, not both")
    mode = RerunMode.TASK if task is not None else start or RerunMode.START
    origin = required_run_id(run, run_id)
    accepted = client.rerun(
        origin,
        mode,
        task,
        params=_rerun_params(client, origin, params_file, params_json, param),
        keep_answers=keep_answers,
        start_at=later.start_at,
        delay_sec=later.delay_sec,
        strict=strict,
        idempotency_key=idempotency_key,
    )
    finish_submit(client, accepted, waiting)


def _rerun_params(
    client: PyocoHttpClient,
    origin: str,
    file: Params | None,
    given: Params | None,
    single: list[Params] | None,
) -> Params | None:
    """None: as in the origin. Single params change those of the origin, unless others replace them."""
    if file is None and given is None:
        if not single:
            return None
        given = Params(client.get_run(origin, ["full"])["params"])
    return merged_params(file, given, single)


@client_command("pyoco-client retry $RUN_ID")
def retry(
    client: PyocoHttpClient,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    output: OutputOption = None,
) -> None:
    show(client.retry(required_run_id(run, run_id)), output, run_view)


def explanation_view(explanation: Explanation) -> RenderableType:
    return Group(*(part for finding in explanation["findings"] for part in _finding_parts(finding)))


def _finding_parts(finding: Finding) -> Iterator[RenderableType]:
    yield Text.assemble((printable(finding["message"]), "bold"), (f"  [{printable(finding['code'])}]", "dim"))
    yield Padding(Text(printable(finding["next"]["by_itself"])), (0, 0, 0, 2))
    for action in finding["next"]["actions"]:
        how = printable(action["command"] or action["request"] or "")
        yield Padding(Text(f"- {printable(action['text'])}{':' if how else ''}"), (0, 0, 0, 2))
        if how:
            yield command_line("    ", how, style="cyan")
