"""`pyoco-client flows list`, `get` and `run`."""

from http import HTTPStatus
from typing import Annotated, Any

import typer

from pyoco_server.cli.commands.runs.run_waiting import WaitOptions, finish_submit
from pyoco_server.cli.commands.workers.flow_completion import complete_flow, complete_param
from pyoco_server.cli.options.client_options import (
    AllPages,
    IdempotencyKey,
    Limit,
    OutputOption,
    RunLimit,
    StartOptions,
    Tag,
    client_command,
    listed,
)
from pyoco_server.cli.options.param_options import (
    ParamsFile,
    ParamsJson,
    ParamText,
    merged_params,
    param_text,
)
from pyoco_server.cli.options.shared_options import flag, option, sendable_text, text_option
from pyoco_server.cli.views.console import show
from pyoco_server.cli.views.flow_views import flow_view, flows_view
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError

FlowArgument = Annotated[
    str,
    typer.Argument(
        help="The name of the flow.", metavar="FLOW", parser=sendable_text, autocompletion=complete_flow
    ),
]
OfTag = Annotated[str | None, text_option("Only as workers of this tag have it.", "TAG")]
ParamTexts = Annotated[
    list[ParamText] | None,
    option(
        "A single param; text where the flow takes text, else JSON or text; repeatable; overrides --params "
        "and --params-file.",
        "KEY=VALUE",
        parser=param_text,
        autocompletion=complete_param,
    ),
]


@client_command(
    "pyoco-client flows list", "pyoco-client flows list --tag gpu", "pyoco-client flows list --search report"
)
def list_flows(
    client: PyocoHttpClient,
    *,
    tag: Annotated[str | None, text_option("Only flows of workers with this tag.", "TAG")] = None,
    search: Annotated[
        str | None, text_option("Only flows with this text in their name or description.", "TEXT")
    ] = None,
    limit: Limit = None,
    all_pages: AllPages = False,
    output: OutputOption = None,
) -> None:
    found = listed(lambda size: client.iter_flows(tag, search, size), limit, all_pages)
    show(found, output, flows_view)


@client_command("pyoco-client flows get greet", "pyoco-client flows get greet --tag gpu --output json")
def get(
    client: PyocoHttpClient, *, flow: FlowArgument, tag: OfTag = None, output: OutputOption = None
) -> None:
    show(client.get_flow(flow, tag), output, flow_view)


@client_command(
    "pyoco-client flows run greet --param name=Ada",
    "pyoco-client flows run greet --param name=Ada --wait",
    "pyoco-client flows run greet --params-file params.yaml --tag gpu",
    start=StartOptions,
    waiting=WaitOptions,
)
def run(
    client: PyocoHttpClient,
    *,
    flow: FlowArgument,
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: ParamTexts = None,
    tag: Tag = None,
    no_check: Annotated[
        bool,
        flag("--no-check", "Submit the run even if no live worker has the flow, or its params do not match."),
    ] = False,
    run_timeout_sec: RunLimit = None,
    start: StartOptions,
    idempotency_key: IdempotencyKey = None,
    waiting: WaitOptions,
) -> None:
    properties = _properties(client, flow, tag) if param and not no_check else {}
    single = [
        each.as_param(is_text=_takes_text(properties.get(each.name, {}), each.text)) for each in param or ()
    ]
    accepted = client.submit_run(
        flow,
        merged_params(params_file, params_json, single),
        tag,
        timeout_sec=run_timeout_sec,
        start_at=start.start_at,
        delay_sec=start.delay_sec,
        strict=not no_check,
        idempotency_key=idempotency_key,
    )
    finish_submit(client, accepted, waiting)


def _properties(client: PyocoHttpClient, flow: str, tag: str | None) -> dict[str, Any]:
    """The schemas of its parameters; none if the API key may only submit."""
    try:
        schema = client.get_flow(flow, tag)["parameters"] or {}
    except PyocoHttpError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return {}
    found: dict[str, Any] = schema.get("properties", {})
    return found


def _takes_text(schema: dict[str, Any], text: str) -> bool:
    """Whether a value such as 007 is a text there, also if it could be a number."""
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    if text == "null" and "null" in kinds:
        return False
    choices = schema.get("enum", [])
    return "string" in kinds <= {"string", "null"} or (
        bool(choices) and all(isinstance(each, str) for each in choices)
    )
