"""`pyoco-client submit` and `submit-yaml`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from pyoco_server.cli.commands.run_waiting import WaitOptions, finish_submit
from pyoco_server.cli.options.client_options import (
    IdempotencyKey,
    RunLimit,
    StartOptions,
    Tag,
    client_command,
)
from pyoco_server.cli.options.shared_options import (
    comma_separated,
    option,
    require_sendable,
    text_option,
)
from pyoco_server.errors import shortened
from pyoco_server.http_client import PyocoHttpClient


class Params(dict[str, Any]):
    """Params by name. Typer needs a class of their own to apply a parser."""


def params_from_file(path: str) -> Params:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"cannot read {path}: {reason}") from None
    return _require_object(_parsed_file(path, text), f"the file {path}")


def params_from_json(text: str) -> Params:
    try:
        value = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f'{shortened(text)} is not JSON ({error}); expected an object such as \'{{"name": "Ada"}}\''
        ) from None
    return _require_object(value, "the text")


def params_from_pair(text: str) -> Params:
    """One param: JSON where the value is JSON, text otherwise."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{shortened(text)} is not a param; expected key=value, as in count=3")
    try:
        param = Params({name.strip(): json.loads(value, parse_constant=_not_json)})
    except (ValueError, RecursionError):
        param = Params({name.strip(): value})
    require_sendable(param)
    return param


def _parsed_file(path: str, text: str) -> object:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        if path.lower().endswith(".json"):
            raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    import yaml  # noqa: PLC0415 - slow to import, and most params are not in a YAML file

    try:
        value = yaml.safe_load(text)
        json.dumps(value, allow_nan=False)
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{path} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f"{path} has a value that JSON cannot represent ({error}); a date needs quotes"
        ) from None
    return value


def _require_object(value: object, what: str) -> Params:
    if not isinstance(value, Mapping):
        raise typer.BadParameter(f"{what} has {shortened(value)}; expected an object with the params by name")
    require_sendable(value)
    return Params((str(name), item) for name, item in value.items())


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


@client_command(
    "pyoco-client submit --flow-name greet --param name=Ada",
    'pyoco-client submit --flow-name greet --params \'{"name": "Ada"}\' --wait',
    "pyoco-client submit --flow-name greet --params-file params.yaml --tag gpu",
    "pyoco-client submit --flow-name greet --in 2h",
    start=StartOptions,
    waiting=WaitOptions,
)
def submit(
    client: PyocoHttpClient,
    *,
    flow_name: Annotated[str, text_option("Flow name.")],
    params_file: Annotated[
        Params | None, option("Params from a JSON or YAML file.", "FILE", parser=params_from_file)
    ] = None,
    params_json: Annotated[
        Params | None,
        option(
            "Params as a JSON object; overrides --params-file.", "JSON", "--params", parser=params_from_json
        ),
    ] = None,
    param: Annotated[
        list[Params] | None,
        option(
            "A single param (JSON or text); repeatable; overrides --params and --params-file.",
            "KEY=VALUE",
            parser=params_from_pair,
        ),
    ] = None,
    tag: Tag = None,
    tags: Annotated[
        str | None, text_option("Comma-separated labels for searching and filtering.", "A,B")
    ] = None,
    run_timeout_sec: RunLimit = None,
    start: StartOptions,
    idempotency_key: IdempotencyKey = None,
    waiting: WaitOptions,
) -> None:
    accepted = client.submit_run(
        flow_name,
        _merged(params_file, params_json, param),
        tag,
        comma_separated(tags) or None,
        timeout_sec=run_timeout_sec,
        start_at=start.start_at,
        delay_sec=start.delay_sec,
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


def _merged(file: Params | None, given: Params | None, single: Sequence[Params] | None) -> Params:
    """All params; a later argument overrides an earlier one."""
    params = Params({**(file or {}), **(given or {})})
    for param in single or ():
        params.update(param)
    return params
