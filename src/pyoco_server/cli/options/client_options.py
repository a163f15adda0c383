"""The options of `pyoco-client` commands, and the decorator that gives a command its client."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeVar

import typer

from pyoco_server.cli.interrupts import blocking_calls_end_by_ctrl_c
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.shared_options import (
    ApiKey,
    GatewayAddress,
    Server,
    flag,
    option,
    text_option,
)
from pyoco_server.cli.options.time_formats import parse_deadline, parse_duration
from pyoco_server.cli.views.console import OutputFormat
from pyoco_server.cli.views.copied_commands import use_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.errors.error_table import system_language
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.records.value_types import RUN_TIMEOUT_MAX_SEC, is_run_id
from pyoco_server.records.waits.wait_models import is_wait_id
from pyoco_server.version import __version__

Client = TypeVar("Client")
Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., None])


def _checked_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        raise typer.BadParameter(f"{run_id!r}: expected a run id as printed by `submit`")
    return run_id


def _checked_wait_id(wait_id: str) -> str:
    if not is_wait_id(wait_id):
        raise typer.BadParameter(f"{wait_id!r}: expected a wait id as shown by `waits --output json`")
    return wait_id


def checked_key(text: str) -> str:
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


OutputOption = Annotated[
    OutputFormat | None,
    option("json or table (default: table on a terminal, json otherwise).", "FORMAT", show_default=False),
]
RunIdArgument = Annotated[
    str | None,
    typer.Argument(
        help="The run id printed by `submit`.", metavar="RUN_ID", parser=_checked_run_id, show_default=False
    ),
]
RunId = Annotated[
    str,
    typer.Argument(help="The run id printed by `submit`.", metavar="RUN_ID", parser=_checked_run_id),
]
RunIdOption = Annotated[
    str | None, option("Same as RUN_ID, given as an option.", "ID", "--run-id", parser=_checked_run_id)
]
WaitId = Annotated[
    str | None, option("The wait id shown by `waits --output json`.", "ID", parser=_checked_wait_id)
]
Tag = Annotated[str | None, text_option("Only workers with this tag may execute the run.", "TAG")]
RunLimit = Annotated[
    float | None,
    option("Time limit of the run; if exceeded, the run is FAILED.", "SECONDS", parser=_checked_run_limit),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """When a submitted run starts."""

    start_at: Annotated[
        float | None,
        option(
            "Start at this time: 2027-01-31T09:00 (local time unless it has an offset) or unix seconds.",
            "TIME",
            "--at",
            parser=parse_deadline,
        ),
    ] = None
    delay_sec: Annotated[
        float | None,
        option("Start after this time: 90s, 30m, 2h or 7d.", "DURATION", "--in", parser=parse_duration),
    ] = None

    def __post_init__(self) -> None:
        if self.start_at is not None and self.delay_sec is not None:
            raise InvalidCliArgument("use either --at or --in, not both")


IdempotencyKey = Annotated[
    str | None,
    option(
        "Submitting again with the same key within 24 hours (PYOCO_IDEMPOTENCY_TTL_SEC of the gateway) "
        "returns the first run (default: a new key, with which the command itself retries while the gateway "
        "or NATS is away for a moment).",
        "KEY",
        parser=checked_key,
    ),
]
RepeatKey = Annotated[
    str | None,
    option(
        "Repeating the command with the same key within 24 hours (PYOCO_IDEMPOTENCY_TTL_SEC of the gateway) "
        "returns the first result.",
        "KEY",
        "--idempotency-key",
        parser=checked_key,
    ),
]
ScheduleKey = Annotated[
    str | None,
    option(
        "Repeating the command with the same key returns the first result; a schedule remembers the keys of "
        "its last 50 requests.",
        "KEY",
        "--idempotency-key",
        parser=checked_key,
    ),
]
SignalKey = Annotated[
    str | None,
    option(
        "Sending again with the same key returns the first signal, until 1,000 later signals were received.",
        "KEY",
        "--idempotency-key",
        parser=checked_key,
    ),
]
WaitLimit = Annotated[
    float | None, option("With --wait: maximum time to wait; the run itself continues.", "SECONDS", min=0)
]
Limit = Annotated[int | None, option("Maximum number of results (default: 50).", "N", min=1)]
AllPages = Annotated[bool, flag("--all", "Fetch all results.")]

DEFAULT_LIMIT = 50
PAGE_SIZE = 200


def check_limit_or_all(limit: int | None, all_pages: bool) -> None:
    if all_pages and limit is not None:
        raise InvalidCliArgument("use either --limit or --all, not both")


def listed(items: Callable[[int], Iterable[Item]], limit: int | None, all_pages: bool) -> list[Item]:
    """The items of a list, which `items` reads in pages of the given size."""
    check_limit_or_all(limit, all_pages)
    most = None if all_pages else limit or DEFAULT_LIMIT
    return list(islice(items(min(most or PAGE_SIZE, PAGE_SIZE)), most))


def required_run_id(argument: str | None, option: str | None, *, default: str | None = None) -> str:
    given = {each for each in (argument, option) if each is not None}
    if len(given) > 1:
        raise InvalidCliArgument(f"RUN_ID ({argument}) and --run-id ({option}) differ; use one of them")
    run_id = next(iter(given), default)
    if run_id is None:
        raise InvalidCliArgument("RUN_ID is missing")
    return run_id


def client_command(*example_lines: str, **groups: Callable[..., Any]) -> Callable[[Function], Function]:
    """Turn a function into a `pyoco-client` command.

    The command has the function's options, and --server and --api-key. The function gets the open client
    first. A group is what several options are turned into: the command has the parameters of that callable
    as options, and the function gets its result as the argument of that name.
    """

    def decorate(function: Function) -> Function:
        @examples(*example_lines)
        def command(ctx: typer.Context, server: Server = None, api_key: ApiKey = None, **given: Any) -> None:
            for name, group in groups.items():
                given[name] = group(
                    **{option: given.pop(option) for option in inspect.signature(group).parameters}
                )
            with blocking_calls_end_by_ctrl_c(), open_client(ctx, server, api_key) as client:
                function(client, **given)

        ctx, *address, _ = inspect.signature(command).parameters.values()
        parameters = [ctx]
        for each in list(inspect.signature(function).parameters.values())[1:]:
            group = groups.get(each.name)
            parameters += [each] if group is None else inspect.signature(group).parameters.values()
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in address]
        # Typer reads a command's options from these two attributes.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ |= {each.name: each.annotation for each in parameters}
        return command  # type: ignore[return-value]

    return decorate


def open_client(ctx: typer.Context, server: str | None, api_key: str | None) -> PyocoHttpClient:
    return new_client(PyocoHttpClient, ctx, server, api_key)


def new_client(
    client_class: Callable[..., Client],
    ctx: typer.Context,
    server: str | None,
    api_key: str | None,
    *,
    program: str = "pyoco-client",
) -> Client:
    """`program` is what the audit log calls it."""
    before = ctx.find_root().obj
    assert isinstance(before, GatewayAddress)
    config = NatsBackendConfig.from_env()
    given = server or before.server
    use_server(given)
    try:
        return client_class(
            given or config.server,
            api_key=api_key or before.api_key or config.api_key or None,
            api_key_header=config.http_api_key_header,
            language=system_language(),
            user_agent=f"{program}/{__version__}",
        )
    except ValueError as error:
        raise InvalidCliArgument(str(error)) from error
