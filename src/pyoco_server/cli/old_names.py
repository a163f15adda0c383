"""Spellings of the public package pyoco-server 0.5: translated to ours, with a line that says the new one."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from pyoco_server.errors import InvalidCliArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class _OldOption:
    """An option of the public package: what is used in its place."""

    # Words of the command line, in front of its value.
    words: tuple[str, ...] = ()
    # An environment variable that gets its value.
    setting: str = ""
    # The value of a flag for the setting; None for an option with a value of its own.
    value: str | None = None
    upper: bool = False
    is_flag: bool = False
    # Why it has no effect, or why it is refused.
    no_effect: str = ""
    refused: str = ""


_UP: Final = {
    "--log-level": _OldOption(setting="PYOCO_LOG_LEVEL", upper=True),
    "--nats-client-port": _OldOption(words=("--nats-port",)),
    "--nats-listen-host": _OldOption(no_effect="the local NATS server listens on 127.0.0.1"),
    "--nats-http-port": _OldOption(no_effect="the local NATS server has no monitoring port"),
}
_WORKER: Final = {
    "--flow-resolver": _OldOption(words=("--resolver",)),
    "--wheel-sync": _OldOption(setting="PYOCO_WHEEL_SYNC_ENABLED", value="true", is_flag=True),
    "--no-wheel-sync": _OldOption(setting="PYOCO_WHEEL_SYNC_ENABLED", value="false", is_flag=True),
    "--wheel-sync-dir": _OldOption(setting="PYOCO_WHEEL_SYNC_DIR"),
    "--wheel-sync-interval-sec": _OldOption(setting="PYOCO_WHEEL_SYNC_INTERVAL_SEC"),
    "--wheel-install-timeout-sec": _OldOption(setting="PYOCO_WHEEL_INSTALL_TIMEOUT_SEC"),
    "--poll-timeout": _OldOption(no_effect="a worker receives jobs as they come"),
    "--run-once": _OldOption(
        is_flag=True,
        refused="a worker serves until it is stopped; to execute one run, call `await worker.run_once()` of "
        "an embedded worker (docs/embedding-a-worker.md)",
    ),
}
_WATCH: Final = {
    "--until-terminal": _OldOption(is_flag=True, no_effect="a watch ends with its run"),
    "--records": _OldOption(is_flag=True, no_effect="use `pyoco-client tasks` for the records"),
    "--since": _OldOption(no_effect="a watch begins with the present state"),
    "--max-events": _OldOption(refused="a watch ends with its run; use --timeout-sec to end it earlier"),
}
_CHECKED: Final = "the gateway checks every wheel"
_WHEEL_UPLOAD: Final = {
    "--preflight": _OldOption(no_effect=_CHECKED),
    "--allow-no-entry-points": _OldOption(is_flag=True, no_effect=_CHECKED),
    "--allow-missing-usage-doc": _OldOption(is_flag=True, no_effect=_CHECKED),
}
# By program and, after a space, its command.
_OPTIONS: Final[Mapping[str, Mapping[str, _OldOption]]] = {
    "pyoco-server up": _UP,
    "pyoco-worker": _WORKER,
    "pyoco-client": {"--api-key-header": _OldOption(setting="PYOCO_HTTP_API_KEY_HEADER")},
    "pyoco-client get": {"--records": _OldOption(words=("--include", "records"), is_flag=True)},
    "pyoco-client watch": _WATCH,
    "pyoco-client wheel-upload": _WHEEL_UPLOAD,
}
# With one of these words anywhere, a command line of `pyoco-server` is in the present form.
_SERVER_WORDS: Final = frozenset({"up", "dev", "-h", "--help", "--version"})


def translated(program: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with our spellings; each old one is reported on the standard error."""
    words = list(arguments)
    if program == "pyoco-server" and not _names_a_command(words):
        _report("`pyoco-server` without a command is an old form; use `pyoco-server up`")
        words = ["up", *words]
    if program == "pyoco-server-admin":
        words = _with_nats_url_last(words)
    command = next((word for word in words if not word.startswith("-")), "")
    options = {**_OPTIONS.get(program, {}), **_OPTIONS.get(f"{program} {command}", {})}
    return list(_translated(words, options)) if options else words


def _names_a_command(words: Sequence[str]) -> bool:
    return bool(words) and (not words[0].startswith("-") or not _SERVER_WORDS.isdisjoint(words))


def _translated(words: Sequence[str], options: Mapping[str, _OldOption]) -> Iterable[str]:
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        old = options.get(name)
        if old is None:
            yield word
            continue
        if old.refused:
            raise InvalidCliArgument(f"{name} is not supported: {old.refused}")
        if not has_value and not old.is_flag:
            value = next(rest, "")
        yield from _replaced(name, old, value)


def _replaced(name: str, old: _OldOption, value: str) -> Iterable[str]:
    if old.no_effect:
        _report(f"`{name}` has no effect: {old.no_effect}")
    elif old.setting:
        given = value.upper() if old.upper else value
        os.environ[old.setting] = given if old.value is None else old.value
        _report(f"`{name}` is an old name; set {old.setting}={os.environ[old.setting]} in the environment")
    else:
        _report(f"`{name}` is an old name; use `{' '.join(old.words)}`")
        yield from old.words if old.is_flag else (*old.words, value)


def _with_nats_url_last(words: list[str]) -> list[str]:
    """`--nats-url URL` is an option of each command, and was one of the program."""
    if not words or words[0].partition("=")[0] != "--nats-url":
        return words
    _report("`--nats-url` before the command is an old form; write it after the command")
    count = 1 if "=" in words[0] else 2
    return [*words[count:], *words[:count]]


def _report(text: str) -> None:
    typer.echo(f"Deprecated: {text}.", err=True)
