"""Under a Japanese locale the help, the prompts, the tables and the details of every command are Japanese."""

import ast
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from typer.main import get_command

import pyoco_server.cli
from pyoco_server import admin_cli
from pyoco_server.cli import client_command, worker_command
from pyoco_server.cli.commands.runs.run_comparison import RunComparison
from pyoco_server.cli.entry import exit_code_of
from pyoco_server.cli.server import server_command
from pyoco_server.cli.translation import japanese, localized
from pyoco_server.cli.views.comparison_view import comparison_view
from pyoco_server.cli.views.console import pairs
from pyoco_server.cli.views.list_views import Columns, list_view

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


def _trees() -> Iterator[ast.Module]:
    for file in Path(pyoco_server.cli.__file__).parent.rglob("*.py"):
        yield ast.parse(file.read_text(encoding="utf-8"))


def _strings(nodes: Iterable[ast.AST | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _texts_in_source() -> set[str]:
    return {text for tree in _trees() for text in _strings(ast.walk(tree))}


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


# Names that are the same in Japanese.
_SAME = {"Run", "run", "Wheel", "CPU", "SHA-256", "sha256", "p50", "p95", "Id", "id", "url", "NATS", ""}


def _headers() -> Iterator[str]:
    """The keys of the `Columns` of every table."""
    for tree in _trees():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)):
                continue
            if "Columns" in ast.unparse(node.annotation):
                yield from _strings(node.value.keys)


def _labels() -> Iterator[str]:
    """The first part of each pair, in the modules that show details in pairs."""
    for tree in _trees():
        imported = {
            name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names
        }
        if "pairs" in imported:
            tuples = (node for node in ast.walk(tree) if isinstance(node, ast.Tuple))
            yield from _strings(node.elts[0] for node in tuples if len(node.elts) == 2)


def test_every_header_of_a_table_is_japanese() -> None:
    headers = set(_headers())
    assert {"Status", "Error or question", "Last seen"} < headers
    assert headers - japanese().keys() - _SAME == set()


def test_every_label_of_a_detail_view_is_japanese() -> None:
    labels = set(_labels())
    assert {"rerun of", "last progress", "self-approval"} < labels
    # The fields of the API keep their names, as in JSON; `pending` is a state.
    words = {label for label in labels if "_" not in label} - {"pending"}
    assert words - japanese().keys() - _SAME == set()


def _shown(view: RenderableType) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(view)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_comparison_is_japanese_under_a_japanese_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    found: RunComparison = {
        "a": "a" * 32,
        "b": "b" * 32,
        "is_cut": True,
        "facts": [
            {"name": "status", "a": "COMPLETED", "b": "FAILED", "differs": True},
            {"name": "took_sec", "a": 1.0, "b": 64.0, "differs": True},
            {"name": "code_version", "a": "v1", "b": "v2", "differs": True},
        ],
        "params": [{"name": "", "a": 1, "b": 2, "differs": True}],
        "tasks": [
            {
                "name": "load",
                "a_state": "SUCCEEDED",
                "b_state": "SUCCEEDED",
                "a_took_sec": 1.0,
                "b_took_sec": 3.0,
            }
        ],
        "result": [{"name": "rows", "a": 1, "b": 2, "differs": True}],
        "outputs": [{"name": "load.rows", "a": 1, "b": 2, "differs": True}],
    }
    shown = _shown(comparison_view(found, with_equal=False))
    for text in (
        "状態",
        "所要時間",
        "1分4秒",
        "コードのバージョン",
        "パラメーター",
        "（値全体）",
        "タスク",
        "差",
    ):
        assert text in shown
    for text in ("2秒 長い", "結果", "タスクの出力", "先頭部分だけを比較"):
        assert text in shown
    ids_and_values = {"aaaaaaaa", "bbbbbbbb", "COMPLETED", "FAILED", "SUCCEEDED", "v", "load", "rows"}
    assert set(re.findall(r"[A-Za-z]+", shown)) == ids_and_values


def test_lists_and_details_are_japanese_under_a_japanese_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "x"}]
    columns: Columns = {"Status": lambda row: row["name"], "Error": lambda row: row["name"]}
    details = pairs([("run_id", "x"), ("rerun of", "y")])
    assert _shown(list_view(rows, columns, only_wide=set())).split()[:2] == ["Status", "Error"]
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert _shown(list_view(rows, columns, only_wide=set())).split()[:2] == ["状態", "エラー"]
    assert _shown(list_view([], columns, only_wide=set())).strip() == "（なし）"
    # The view above was made under the other locale.
    assert _shown(details).split() == ["run_id", "x", "rerun", "of", "y"]
    assert _shown(pairs([("run_id", "x"), ("rerun of", "y")])).split() == ["run_id", "x", "再実行元", "y"]
