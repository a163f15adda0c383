"""Params as options: from a file, as JSON, and one by one."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from pyoco_server.cli.options.shared_options import flag, option, require_sendable
from pyoco_server.errors import shortened


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


@dataclass(frozen=True, slots=True)
class ParamText:
    """One param as it was typed."""

    name: str
    text: str

    def as_param(self, *, is_text: bool = False) -> Params:
        """JSON where the value is JSON, text otherwise; with `is_text`, text in any case."""
        value: object = self.text
        if not is_text:
            with suppress(ValueError, RecursionError):
                value = json.loads(self.text, parse_constant=_not_json)
        param = Params({self.name: value})
        require_sendable(param)
        return param


def param_text(text: str) -> ParamText:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{shortened(text)} is not a param; expected key=value, as in count=3")
    require_sendable(text)
    return ParamText(name.strip(), value)


def params_from_pair(text: str) -> Params:
    """One param: JSON where the value is JSON, text otherwise."""
    return param_text(text).as_param()


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


ParamsFile = Annotated[
    Params | None, option("Params from a JSON or YAML file.", "FILE", parser=params_from_file)
]
ParamsJson = Annotated[
    Params | None,
    option("Params as a JSON object; overrides --params-file.", "JSON", "--params", parser=params_from_json),
]
SingleParams = Annotated[
    list[Params] | None,
    option(
        "A single param (JSON or text); repeatable; overrides --params and --params-file.",
        "KEY=VALUE",
        parser=params_from_pair,
    ),
]
Strict = Annotated[
    bool, flag("--strict", "Refuse a flow that no live worker has, and params that do not match it.")
]


def merged_params(file: Params | None, given: Params | None, single: Sequence[Params] | None) -> Params:
    """All params; a later argument overrides an earlier one."""
    params = Params({**(file or {}), **(given or {})})
    for param in single or ():
        params.update(param)
    return params
