"""What the commands of `pyoco-client` have in common: their options, and the way to the gateway."""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from pyoco_server.cli.options.common_options import sendable_text
from pyoco_server.cli.views.run_views import Output
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient
from pyoco_server.records.models import RUN_TIMEOUT_MAX_SEC, is_run_id
from pyoco_server.records.wait_models import is_wait_id
from pyoco_server.system.system_language import system_language

Client = TypeVar("Client", PyocoHttpClient, AsyncPyocoHttpClient)


def _checked_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        raise typer.BadParameter(f"{run_id!r}: wanted the id of a run, as `submit` gives it")
    return run_id


def _checked_wait_id(wait_id: str) -> str:
    if not is_wait_id(wait_id):
        raise typer.BadParameter(f"{wait_id!r}: wanted the id of a wait, as `waits --output json` has it")
    return wait_id


def _checked_key(text: str) -> str:
    if not (0 < len(text) <= 255 and all("!" <= character <= "~" for character in text)):
        raise typer.BadParameter(f"{text!r}: wanted 1 to 255 visible ASCII characters, such as a UUID")
    return text


def _checked_run_limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= RUN_TIMEOUT_MAX_SEC:
        raise typer.BadParameter(
            f"{text!r}: wanted seconds, more than 0 and at most {RUN_TIMEOUT_MAX_SEC} (30 days)"
        )
    return seconds


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
NamedRun = Annotated[
    str | None,
    typer.Argument(
        help="The id that `submit` gave.", metavar="RUN_ID", parser=_checked_run_id, show_default=False
    ),
]
OneRun = Annotated[
    str | None, typer.Option("--run-id", help="The same, as an option.", metavar="ID", parser=_checked_run_id)
]
WaitId = Annotated[
    str | None,
    typer.Option(help="This wait, as `waits --output json` has it.", metavar="ID", parser=_checked_wait_id),
]
Tag = Annotated[
    str | None,
    typer.Option(
        help="Which workers may execute the run: those with this tag.", metavar="TAG", parser=sendable_text
    ),
]
RunLimit = Annotated[
    float | None,
    typer.Option(
        help="How long the run may take; it is FAILED when it takes longer.",
        metavar="SECONDS",
        parser=_checked_run_limit,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        help="Submitting again with the same key gives the first run, for a day.",
        metavar="KEY",
        parser=_checked_key,
    ),
]
RepeatKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="Repeating the command with the same key gives what the first one did, for a day.",
        metavar="KEY",
        parser=_checked_key,
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

    def open(self, client: type[Client], server: str | None, api_key: str | None) -> Client:
        config = NatsBackendConfig.from_env()
        try:
            return client(
                server or self.server or config.server,
                api_key=api_key or self.api_key or config.api_key or None,
                api_key_header=config.http_api_key_header,
                language=system_language(),
            )
        except ValueError as error:
            raise InvalidCliArgument(str(error)) from error


def the_run(argument: str | None, option: str | None, *, otherwise: str | None = None) -> str:
    """The run that was named, in either way."""
    named = {each for each in (argument, option) if each is not None}
    if len(named) > 1:
        raise InvalidCliArgument(
            f"RUN_ID and --run-id name two runs ({argument} and {option}); leave one out"
        )
    run_id = next(iter(named), otherwise)
    if run_id is None:
        raise InvalidCliArgument("which run? Give its RUN_ID")
    return run_id


def open_client(ctx: typer.Context, server: str | None, api_key: str | None) -> PyocoHttpClient:
    """A connection to the gateway that the command line, or else the settings, name."""
    return _address(ctx).open(PyocoHttpClient, server, api_key)


def open_async_client(ctx: typer.Context, server: str | None, api_key: str | None) -> AsyncPyocoHttpClient:
    """The same for a command that does several things at once."""
    return _address(ctx).open(AsyncPyocoHttpClient, server, api_key)


def _address(ctx: typer.Context) -> GatewayAddress:
    address = ctx.find_root().obj
    assert isinstance(address, GatewayAddress)
    return address
