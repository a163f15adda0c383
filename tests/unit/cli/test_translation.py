"""Under a Japanese locale the help and the prompts of every command are Japanese."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import pyoco_server.cli
from pyoco_server import admin_cli
from pyoco_server.cli import client_command, worker_command
from pyoco_server.cli.entry import exit_code_of
from pyoco_server.cli.server import server_command
from pyoco_server.cli.translation import japanese, localized

_PROGRAMS = {
    "pyoco-client": client_command.app,
    "pyoco-server": server_command.app,
    "pyoco-worker": worker_command.app,
    "pyoco-server-admin": admin_cli.app,
}
_JAPANESE = re.compile(r"[\u3000-\u30ff\u4e00-\u9fff]")
# Names that stay as they are: options, settings, values in capitals, placeholders.
_NAMES = re.compile(r"--[a-z][a-z-]+|PYOCO_\w+|AIFLOW_\w+|\{\w*\}|\b[A-Z]{4,}(?:_[A-Z]+)*\b")


def _helps(command: Any) -> Iterator[str]:
    yield command.help
    yield from (param.help for param in command.params if getattr(param, "help", None))
    for name in getattr(command, "commands", {}):
        yield from _helps(command.commands[name])


def _texts_in_source() -> set[str]:
    files = Path(pyoco_server.cli.__file__).parent.rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("program", _PROGRAMS)
def test_every_help_has_a_japanese_text(program: str) -> None:
    missing = [text for text in _helps(get_command(_PROGRAMS[program])) if text not in japanese()]
    assert missing == []


def test_every_japanese_text_belongs_to_one_in_use() -> None:
    used = {text for app in _PROGRAMS.values() for text in _helps(get_command(app))} | _texts_in_source()
    # Headings and notes of the library that shows a help.
    used |= {
        "Usage",
        "Options",
        "Commands",
        "Arguments",
        "Examples",
        "required",
        "Show this message and exit.",
    }
    assert japanese().keys() - used == set()


def test_japanese_texts_are_japanese() -> None:
    english = [text for text in japanese().values() if not _JAPANESE.search(text)]
    assert english == []


def test_names_are_the_same_in_both_languages() -> None:
    different = {
        english: text
        for english, text in japanese().items()
        if sorted(set(_NAMES.findall(english))) != sorted(set(_NAMES.findall(text)))
    }
    assert different == {}


@pytest.mark.parametrize("program", ["pyoco-client", "pyoco-client submit", "pyoco-worker"])
def test_the_help_is_japanese_under_a_japanese_locale(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    name, *arguments = program.split()
    assert exit_code_of(_PROGRAMS[name], name, [*arguments, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("使い方: ")
    assert "オプション:" in shown
    assert "例:" in shown
    assert not re.search(r"\b(Usage|Options|Show this message|required)\b", shown)


def test_texts_are_english_under_another_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert localized("Approve this?") == "Approve this?"
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert localized("Approve this?") == "承認しますか?"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["submit"], "--flow-name が指定されていません"),
        (
            ["submit", "--flow-nam", "x"],
            "--flow-nam というオプションはありません（--flow-name のことですか?）",
        ),
        (["nope"], "nope というコマンドはありません"),
        (["list", "--status"], "--status には値が必要です"),
        (["list", "--limit", "x"], "--limit の値が正しくありません: "),
        (["get"], "RUN_ID が指定されていません"),
    ],
)
def test_usage_errors_are_japanese_under_a_japanese_locale(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert exit_code_of(client_command.app, "pyoco-client", arguments) == 1
    assert expected in capsys.readouterr().err
