"""The params of a run as they are written on a command line: a file, a JSON object, single values."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
import yaml

from pyoco_server.cli.options.common_options import require_sendable
from pyoco_server.errors import shortened


class Params(dict[str, Any]):
    """Params by their names."""


def merged(file: Params | None, given: Params | None, single: Sequence[Params] | None) -> Params:
    """All of them together; what stands later in this list wins."""
    params = Params({**(file or {}), **(given or {})})
    for param in single or ():
        params.update(param)
    return params


def from_file(path: str) -> Params:
    """The object in a JSON or YAML file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"cannot read {path}: {reason}") from None
    return _require_object(_parsed_file(path, text), f"the file {path}")


def from_json(text: str) -> Params:
    """The object in a JSON text."""
    try:
        value = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f'{shortened(text)} is not JSON ({error}); wanted an object such as \'{{"name": "Ada"}}\''
        ) from None
    return _require_object(value, "the text")


def from_pair(text: str) -> Params:
    """One value: `count=3` is a number and `name=Ada` a text, as `name='"3"'` is."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{shortened(text)} has no name and value; wanted key=value, as in count=3")
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
    try:
        value = yaml.safe_load(text)
        json.dumps(value, allow_nan=False)
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{path} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f"{path} holds a value that JSON has no form for ({error}); a date needs quotes"
        ) from None
    return value


def _require_object(value: object, what: str) -> Params:
    if not isinstance(value, Mapping):
        raise typer.BadParameter(
            f"{what} holds {shortened(value)}; wanted an object with the params by their names"
        )
    require_sendable(value)
    return Params((str(name), item) for name, item in value.items())


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")
