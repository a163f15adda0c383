"""Options that the commands of hooks, templates, actions and events share."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli.forms.standard_input import piped_line
from pyoco_server.cli.options.client_options import RunLimit, Tag
from pyoco_server.cli.options.json_option import given_json
from pyoco_server.cli.options.param_options import ParamsFile, ParamsJson, SingleParams, merged_params
from pyoco_server.cli.options.shared_options import comma_separated, option, text_option
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.records.triggers.trigger_models import TEMPLATE_ID_EXPECTED, is_template_id

EventToken = Annotated[
    str | None,
    text_option(
        "The token of workflow events, where the gateway requires it.",
        "TOKEN",
        "--token",
        envvar="AX_WORKFLOW_EVENT_TOKEN",
        show_envvar=False,
    ),
]
SampleJson = Annotated[
    str | None,
    option(
        "The sample as JSON (default: an empty object); @FILE reads a file, - standard input.",
        "JSON",
        "--json",
    ),
]


def flow_binding(
    *,
    workflow_file: Annotated[
        Path | None, option("A flow.yaml to run, which is stored.", "FILE", exists=True, dir_okay=False)
    ] = None,
    params_file: ParamsFile = None,
    params_json: ParamsJson = None,
    param: SingleParams = None,
    tag: Tag = None,
    tags: Annotated[str | None, text_option("Comma-separated labels of its runs.", "A,B")] = None,
    run_timeout_sec: RunLimit = None,
) -> dict[str, Any]:
    """What a hook or an action starts, beside the name of the flow: the given fields."""
    has_params = params_file is not None or params_json is not None or param
    fields = {
        "workflow_yaml": None if workflow_file is None else workflow_file.read_text(encoding="utf-8-sig"),
        "params": merged_params(params_file, params_json, param) if has_params else None,
        "tag": tag,
        "tags": comma_separated(tags) or None,
        "timeout_sec": run_timeout_sec,
    }
    return {name: value for name, value in fields.items() if value is not None}


def checked_template_id(text: str) -> str:
    if not is_template_id(text):
        raise typer.BadParameter(f"{text!r}: {TEMPLATE_ID_EXPECTED}")
    return text


def typed_secret(text: str) -> str:
    """`-` is the first line of standard input, which is in no list of processes."""
    return piped_line().strip() if text == "-" else text


def parsed_pair(text: str) -> tuple[str, str]:
    """`name=value`, with a value that may be empty."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{text!r}: expected NAME=VALUE")
    return name.strip(), value.strip()


def pair_option(help: str, metavar: str, *names: str) -> Any:
    return option(f"{help}; repeatable.", metavar, *names, parser=Pair)


class Pair(tuple[str, str]):
    """A name and a value. Typer needs a class of its own to apply a parser."""

    __slots__ = ()

    def __new__(cls, text: str) -> "Pair":
        return super().__new__(cls, parsed_pair(text))


def by_name(pairs: list[Pair] | None) -> dict[str, str]:
    return dict(pairs or ())


def loose_value(text: str) -> Any:
    """JSON where it is JSON, text otherwise."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def sample_object(text: str | None) -> dict[str, Any]:
    """A sample that has to be a JSON object."""
    sample = {} if text is None else given_json(text)
    if not isinstance(sample, dict):
        raise InvalidCliArgument("--json: expected a JSON object")
    return sample
