"""The options of `pyoco-client` commands, and the decorator that gives a command its client."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.shared_options import ApiKey, GatewayAddress, Server, sendable_text
from pyoco_server.cli.views.console import Output
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.errors.error_table import system_language
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.models import RUN_TIMEOUT_MAX_SEC, is_run_id
from pyoco_server.records.wait_models import is_wait_id

Client = TypeVar("Client")
Function = TypeVar("Function", bound=Callable[..., None])


def _checked_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        raise typer.BadParameter(f"{run_id!r}: expected a run id as printed by `submit`")
    return run_id


def _checked_wait_id(wait_id: str) -> str:
    if not is_wait_id(wait_id):
        raise typer.BadParameter(f"{wait_id!r}: expected a wait id as shown by `waits --output json`")
    return wait_id


def _checked_key(text: str) -> str:
    if not (0 < len(text) <= 255 and all("!" <= character <= "~" for character in text)):
        raise typer.BadParameter(f"{text!r}: expected 1 to 255 visible ASCII characters, such as a UUID")
    return text


def _checked_run_limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= RUN_TIMEOUT_MAX_SEC:
        raise typer.BadParameter(
            f"{text!r}: expected seconds, more than 0 and at most {RUN_TIMEOUT_MAX_SEC} (30 days)"
        )
    return seconds


OutputForm = Annotated[
    Output | None,
    typer.Option(
        help="json or table (default: table on a terminal, json otherwise).",
        metavar="FORM",
        show_default=False,
    ),
]
RunId = Annotated[
    str, typer.Option(help="The run id printed by `submit`.", metavar="ID", parser=_checked_run_id)
]
RunIdArgument = Annotated[
    str | None,
    typer.Argument(
        help="The run id printed by `submit`.", metavar="RUN_ID", parser=_checked_run_id, show_default=False
    ),
]
RunIdOption = Annotated[
    str | None,
    typer.Option(
        "--run-id", help="Same as RUN_ID, given as an option.", metavar="ID", parser=_checked_run_id
    ),
]
WaitId = Annotated[
    str | None,
    typer.Option(help="The wait id shown by `waits --output json`.", metavar="ID", parser=_checked_wait_id),
]
Tag = Annotated[
    str | None,
    typer.Option(help="Only workers with this tag may execute the run.", metavar="TAG", parser=sendable_text),
]
RunLimit = Annotated[
    float | None,
    typer.Option(
        help="Time limit of the run; if exceeded, the run is FAILED.",
        metavar="SECONDS",
        parser=_checked_run_limit,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        help="Submitting again with the same key within a day returns the first run.",
        metavar="KEY",
        parser=_checked_key,
    ),
]
RepeatKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="Repeating the command with the same key within a day returns the first result.",
        metavar="KEY",
        parser=_checked_key,
    ),
]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait until the run ends; exit 0 only if it is COMPLETED.", metavar=""),
]
WaitLimit = Annotated[
    float | None,
    typer.Option(
        help="With --wait: maximum time to wait; the run itself continues.", metavar="SECONDS", min=0
    ),
]
Limit = Annotated[
    int | None, typer.Option(help="Maximum number of results (default: 50).", metavar="N", min=1)
]
AllPages = Annotated[bool, typer.Option("--all", help="Fetch all results.", metavar="")]

DEFAULT_LIMIT = 50
PAGE_SIZE = 200


def check_limit_or_all(limit: int | None, all_pages: bool) -> None:
    if all_pages and limit is not None:
        raise InvalidCliArgument("use either --limit or --all, not both")


def required_run_id(argument: str | None, option: str | None, *, default: str | None = None) -> str:
    given = {each for each in (argument, option) if each is not None}
    if len(given) > 1:
        raise InvalidCliArgument(f"RUN_ID ({argument}) and --run-id ({option}) differ; use one of them")
    run_id = next(iter(given), default)
    if run_id is None:
        raise InvalidCliArgument("RUN_ID is missing")
    return run_id


def client_command(
    *example_lines: str, filters: Callable[..., Any] | None = None
) -> Callable[[Function], Function]:
    """Turn a function into a `pyoco-client` command.

    The command has the function's options, those of `filters`, and --server and --api-key. The function gets
    the open client first, and the result of `filters` as its argument of that name.
    """
    filter_options = [] if filters is None else list(inspect.signature(filters).parameters.values())

    def decorate(function: Function) -> Function:
        @examples(*example_lines)
        def command(ctx: typer.Context, server: Server = None, api_key: ApiKey = None, **given: Any) -> None:
            if filters is not None:
                given["filters"] = filters(
                    **{option.name: given.pop(option.name) for option in filter_options}
                )
            with open_client(ctx, server, api_key) as client:
                function(client, **given)

        own = list(inspect.signature(function).parameters.values())[1:]
        arguments = [each for each in own if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        options = [each for each in own if each not in arguments and each.name != "filters"]
        ctx, *address, _ = inspect.signature(command).parameters.values()
        address = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in address]
        # Typer reads a command's options from these two attributes.
        command.__signature__ = inspect.Signature([ctx, *arguments, *filter_options, *options, *address])  # type: ignore[attr-defined]
        for source in (filters, function):
            if source is not None:
                command.__annotations__ |= get_type_hints(source, include_extras=True)
        return command  # type: ignore[return-value]

    return decorate


def open_client(ctx: typer.Context, server: str | None, api_key: str | None) -> PyocoHttpClient:
    return new_client(PyocoHttpClient, ctx, server, api_key)


def new_client(
    client_class: Callable[..., Client], ctx: typer.Context, server: str | None, api_key: str | None
) -> Client:
    before = ctx.find_root().obj
    assert isinstance(before, GatewayAddress)
    config = NatsBackendConfig.from_env()
    try:
        return client_class(
            server or before.server or config.server,
            api_key=api_key or before.api_key or config.api_key or None,
            api_key_header=config.http_api_key_header,
            language=system_language(),
        )
    except ValueError as error:
        raise InvalidCliArgument(str(error)) from error
