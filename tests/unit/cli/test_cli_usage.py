"""Usage errors and help of every command."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from pyoco_server import __version__, admin_cli
from pyoco_server.cli import client_command as client
from pyoco_server.cli import worker_command as worker
from pyoco_server.cli.entry import exit_code_of
from pyoco_server.cli.options.param_options import params_from_pair
from pyoco_server.cli.server import server_command as server
from pyoco_server.errors.error_table import system_language
from tests.support.commands import call_client, call_command
from tests.support.programs import ADMIN, CLIENT, SERVER, WORKER
from tests.support.waiting import LIMIT_SEC

APPS = {
    "pyoco-server": server.app,
    "pyoco-worker": worker.app,
    "pyoco-client": client.app,
    "pyoco-server-admin": admin_cli.app,
}
MODULES = {
    "pyoco-server": SERVER,
    "pyoco-worker": WORKER,
    "pyoco-client": CLIENT,
    "pyoco-server-admin": ADMIN,
}
A_RUN = "00000000-0000-4000-8000-000000000000"
ANOTHER_RUN = A_RUN.replace("8", "9")
A_WAIT = f"{A_RUN}.0123456789abcdef"


def commands() -> list[tuple[str, Any]]:
    """Every command with its full name, `pyoco-client` itself as well as `pyoco-client dlq list`."""
    return [each for program, app in APPS.items() for each in _with_commands(program, get_command(app))]


def _with_commands(name: str, command: Any) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", {}).items()
    return [(name, command), *(each for word, sub in below for each in _with_commands(f"{name} {word}", sub))]


WRONG = {
    "pyoco-client sumbit": "No such command 'sumbit'",
    "pyoco-client submit": "Missing option '--flow-name'",
    "pyoco-client submit --flow-name": "Option '--flow-name' requires an argument",
    "pyoco-client submit --flow-nam x": "No such option: --flow-nam",
    "pyoco-client submit --flow-name x y": "unexpected extra argument",
    "pyoco-client submit --flow-name x --param y": "'y' is not a param; expected key=value",
    "pyoco-client submit --flow-name x --param =1": "expected key=value",
    "pyoco-client submit --flow-name x --params '{'": "'{' is not JSON",
    "pyoco-client submit --flow-name x --params '[1]'": "has [1]; expected an object",
    "pyoco-client submit --flow-name x --params '{\"a\": NaN}'": "NaN is not a JSON value",
    "pyoco-client submit --flow-name x --params-file none.yaml": "cannot read none.yaml: No such file",
    "pyoco-client submit --flow-name x --params-file bad.json": "bad.json is not JSON: ",
    "pyoco-client submit --flow-name x --params-file bad.yaml": "bad.yaml is neither JSON nor YAML: ",
    "pyoco-client submit --flow-name x --params-file date.yaml": "a date needs quotes",
    "pyoco-client submit --flow-name x --params-file list.yaml": "has ['a']; expected an object",
    "pyoco-client submit --flow-name x --timeout-sec 3": "add --wait",
    "pyoco-client submit --flow-name x --wait --timeout-sec -1": "--timeout-sec",
    "pyoco-client submit --flow-name x --output xml": "--output",
    "pyoco-client submit --flow-name x --at 2027-01-31T09:00 --in 2h": "use either --at or --in",
    "pyoco-client submit --flow-name x --at noon": "'noon': expected a time such as",
    "pyoco-client submit --flow-name x --in soon": "'soon': expected a duration such as",
    f"pyoco-client rerun {A_RUN} --at 1 --in 2h": "use either --at or --in",
    "pyoco-client submit-yaml --flow-name x --workflow-file none.yaml": "none.yaml",
    "pyoco-client submit --flow-name x --param a=\udcff": "is not UTF-8 text",
    "pyoco-client submit --flow-name x --param 'a=\"\\ud800\"'": "is not UTF-8 text",
    'pyoco-client submit --flow-name x --params \'{"a": ["\\ud800"]}\'': "is not UTF-8 text",
    "pyoco-client submit --flow-name x --params-file surrogate.json": "is not UTF-8 text",
    "pyoco-client submit --flow-name \udcff": "Invalid value for '--flow-name': '\\udcff' is not UTF-8 text",
    "pyoco-client submit --flow-name x --tag \udcff": "is not UTF-8 text",
    "pyoco-client submit --flow-name x --tags \udcff": "is not UTF-8 text",
    "pyoco-client submit --flow-name x --server 'http://[::1'": "'http://[::1' is no address of a gateway",
    "pyoco-client submit --flow-name x --server http://\udcff": "'http://\\udcff' is no address of a gateway",
    "pyoco-client submit --flow-name x --server localhost": "'localhost' is no address of a gateway",
    "pyoco-client submit --flow-name x --api-key ключ": "the API key has a character that an HTTP header",
    "pyoco-client events send --key order/4711": "'order/4711': expected 1 to 128 letters, digits",
    "pyoco-client get": "RUN_ID is missing",
    **{
        f"pyoco-client {command} x": "'x': expected a run id"
        for command in ("get", "tasks", "explain", "cancel", "rerun", "watch", "logs", "retry")
    },
    f"pyoco-client get {A_RUN} --run-id {ANOTHER_RUN}": "differ; use one of them",
    "pyoco-client get --run-id ''": "'': expected a run id",
    "pyoco-client get --run-id ../health": "'../health': expected a run id",
    f"pyoco-client get --run-id {A_RUN} --include \udcff": "is not UTF-8 text",
    "pyoco-client tasks --run-id ''": "'': expected a run id",
    "pyoco-client tasks": "RUN_ID is missing",
    "pyoco-client list --status DONE": "'DONE': expected one of SCHEDULED, PENDING, RUNNING",
    "pyoco-client list --updated-after yesterday": "'yesterday': expected an age such as 30m",
    "pyoco-client list --limit 0": "--limit",
    "pyoco-client list --limit 5 --all": "use either --limit or --all",
    "pyoco-client list --sort color": "'color' is not one of 'updated_at'",
    "pyoco-client list --flow \udcff": "is not UTF-8 text",
    "pyoco-client list-vnext --limit 201": "--limit",
    f"pyoco-client watch --run-id {A_RUN} --output table": "'table' is not one of 'status', 'json'",
    f"pyoco-client watch --run-id {A_RUN} --timeout-sec -1": "--timeout-sec",
    "pyoco-client explain --run-id x": "'x': expected a run id",
    "pyoco-client workers --state GONE": "'GONE': expected one of RUNNING, IDLE",
    "pyoco-client workers --limit 501": "--limit",
    "pyoco-client worker --pause": "Missing option '--worker-id'",
    "pyoco-client worker --worker-id w --pause --resume": "use either --pause or --resume",
    "pyoco-client dlq lst": "No such command 'lst'",
    "pyoco-client dlq list --limit 5 --all": "use either --limit or --all",
    "pyoco-client dlq get --seq 0": "--seq",
    "pyoco-client dlq replay --yes": "give --seq, or at least one filter",
    "pyoco-client dlq replay --seq 1 --flow x": "--seq names one letter",
    "pyoco-client dlq delete --seq 1 --dry-run": "--seq names one letter",
    "pyoco-client bulk cancel --yes": "give at least one filter",
    "pyoco-client bulk rerun --from middle --flow x": "'middle' is not one of 'start', 'failed'",
    "pyoco-client bulk get": "Missing option '--bulk-id'",
    f"pyoco-client rerun --run-id {A_RUN} --from failed --task store": "use either --from or --task",
    f"pyoco-client rerun --run-id {A_RUN} --from task": "'task' is not one of 'start', 'failed'",
    f"pyoco-client rerun --run-id {A_RUN} --timeout-sec 3": "add --wait",
    **{
        f"pyoco-client submit --flow-name x --run-timeout-sec {limit}": f"'{limit}': expected seconds, more"
        for limit in ("0", "-1", "nan", "inf", "soon", "2592001")
    },
    **{
        f"pyoco-client submit --flow-name x --idempotency-key '{key}'": "expected 1 to 255 visible ASCII"
        for key in ("", "a b", "ключ", "x" * 256)
    },
    "pyoco-client dlq delete --seq 1 --idempotency-key k": "--idempotency-key has no use with --seq",
    f"pyoco-client logs --run-id {A_RUN} --stream stdin": "'stdin' is not one of",
    f"pyoco-client logs --run-id {A_RUN} --tail -1": "--tail",
    f"pyoco-client logs --run-id {A_RUN} --output table": "'table' is not one of",
    f"pyoco-client resume {A_RUN}": "standard input is not a terminal; give the answer with --json",
    "pyoco-client resume --json 1": "RUN_ID is missing",
    "pyoco-client resume x --json 1": "'x': expected a run id",
    f"pyoco-client resume {A_RUN} --wait-id x": "'x': expected a wait id",
    f"pyoco-client resume {A_RUN} --run-id {ANOTHER_RUN} --json 1": "differ; use one of them",
    f"pyoco-client resume {ANOTHER_RUN} --wait-id {A_WAIT} --json 1": "is not a wait of",
    f"pyoco-client resume {A_RUN} --json '{{'": "--json: '{' is not JSON",
    f"pyoco-client resume {A_RUN} --json NaN": "NaN is not a JSON value",
    f"pyoco-client resume {A_RUN} --json @none.json": "--json: cannot read none.json: No such file",
    f"pyoco-client resume {A_RUN} --decision maybe": "'maybe' is not one of 'approved'",
    f"pyoco-client resume {A_RUN} --decision edited": "--decision edited needs the replacement: add --json",
    f"pyoco-client resume {A_RUN} --decision approved --json 1": "takes no --json",
    f"pyoco-client resume {A_RUN} --json 1 --digest x": "--digest needs --decision",
    "pyoco-client retry": "RUN_ID is missing",
    "pyoco-client waits --state done": "'done': expected one of open, answered, expired, cancelled",
    "pyoco-client waits --all --limit 1": "use either --limit or --all",
    "pyoco-client waits --watch --flow x": "not several of them",
    f"pyoco-client waits --watch --wait-id {A_WAIT}": "not several of them",
    "pyoco-client wheel-upload": "Missing option '--wheel-file'",
    "pyoco-client wheel-upload --wheel-file none.whl": "none.whl",
    "pyoco-client wheel-upload --wheel-file flow.yaml --tags a.b": "'a.b': expected 1 to 64 letters",
    "pyoco-client wheel-delete": "Missing option '--name'",
    "pyoco-client wheel-history --limit 501": "--limit",
    "pyoco-client wheel-history --action rename": "'rename' is not one of 'upload', 'delete'",
    "pyoco-server op": "No such command 'op'",
    "pyoco-server up --port 70000": "--port",
    "pyoco-server up --dashboard-lang fr": "PYOCO_DASHBOARD_LANG='fr': expected one of auto, ja, en",
    "pyoco-server up --nats-url http://x": "PYOCO_NATS_URL='http://x'",
    "pyoco-server up --nats-port 4222": "need --with-nats-bootstrap",
    "pyoco-server up --with-nats-bootstrap --nats-url nats://x:1": "use either it or --with-nats-bootstrap",
    "pyoco-server dev --flows none": "--flows",
    "pyoco-server dev --concurrency 0": "--concurrency",
    "pyoco-server --dashboard-lang fr dev": "PYOCO_DASHBOARD_LANG='fr': expected one of auto, ja, en",
    "pyoco-server dev --dashboard-lang fr": "PYOCO_DASHBOARD_LANG='fr': expected one of auto, ja, en",
    "pyoco-worker --flows none": "--flows",
    "pyoco-worker --flows . --resolver a:b": "use either --flows or --resolver",
    "pyoco-worker --resolver a.b": "expected module:function",
    "pyoco-worker --tag a.b": "'a.b': expected 1 to 64 letters",
    "pyoco-worker --tags a,b.c": "'b.c': expected 1 to 64 letters",
    "pyoco-worker --worker-id 'a b'": "'a b': expected 1 to 128 letters",
    "pyoco-worker --concurrency 0": "--concurrency",
    "pyoco-server-admin api-keys": "No such command 'api-keys'",
    "pyoco-server-admin api-key create": "Missing option '--tenant'",
    "pyoco-server-admin api-key create --tenant a.b": "'a.b': expected 1 to 64 letters",
    "pyoco-server-admin api-key create --tenant a --scopes raed": "scope='raed': expected one of submit",
    "pyoco-server-admin api-key create --tenant a --scopes ''": "'' names no scope; expected some of submit",
    "pyoco-server-admin api-key create --tenant a --scopes ' , '": "' , ' names no scope; expected some of",
    "pyoco-server-admin api-key create --tenant a --expires-in soon": "'soon': expected a duration such as",
    "pyoco-server-admin api-key create --tenant a --expires-in 0s": "the lifetime must be longer than 0",
}


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the command lines of this module name."""
    (tmp_path / "flows").mkdir()
    for name, text in {
        "flow.yaml": "flow: {graph: a}",
        "schedules.yaml": "schedules: []",
        "alerts.yaml": "alerts: []",
        "params.yaml": "{}",
        "bad.json": "{'a': 1}",
        "bad.yaml": "a: [1",
        "date.yaml": "when: 2026-01-01",
        "list.yaml": "[a]",
        "surrogate.json": '{"a": "\\ud800"}',
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mypackage-1.2.0-py3-none-any.whl").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "C.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    # An option before the command sets it; restored after the test.
    monkeypatch.setenv("PYOCO_DASHBOARD_LANG", "auto")


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("line", "complaint"), WRONG.items(), ids=map(ascii, WRONG))
def test_a_usage_error_exits_with_1_and_shows_the_cause_and_an_example(
    line: str, complaint: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    program, *arguments = shlex.split(line)
    assert exit_code_of(APPS[program], program, arguments) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("ERR-PYOCO-0018 ")
    assert complaint in said.err
    assert re.search(rf"^  Example: {program}\b", said.err, re.MULTILINE)
    assert re.search(rf"^  Help: {program}.* --help$", said.err, re.MULTILINE)


def test_a_bad_setting_is_a_usage_error_that_names_key_and_value() -> None:
    for module, arguments in ((SERVER, ["up"]), (WORKER, []), (CLIENT, ["get", "--run-id", A_RUN])):
        done = call_command(module, *arguments, PYOCO_LOG_LEVEL="LOUD", PYOCO_CONSUMER_MAX_DELIVER="many")
        assert done.returncode == 1
        assert "PYOCO_LOG_LEVEL='LOUD': expected one of DEBUG" in done.stderr
        assert "PYOCO_CONSUMER_MAX_DELIVER='many': expected a whole number" in done.stderr


def test_usage_errors_are_in_the_language_of_the_terminal() -> None:
    done = call_client("submit", LC_ALL="ja_JP.UTF-8")
    assert done.stderr.startswith("ERR-PYOCO-0018 CLI引数が不正です（入力形式を確認してください）: ")


@pytest.mark.parametrize("program", MODULES)
def test_every_program_shows_its_version(program: str) -> None:
    done = call_command(MODULES[program], "--version")
    assert (done.returncode, done.stdout) == (0, f"{program} {__version__}\n")


def modules_imported(program: str, *command_lines: Sequence[str]) -> set[str]:
    """The modules of a new process after these calls of the program."""
    script = f"""import contextlib, sys
from {MODULES[program]} import main
for sys.argv[1:] in {command_lines!r}:
    with contextlib.suppress(SystemExit):
        main()
print('|', *sys.modules)"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SEC, check=True)
    return set(done.stdout.rpartition("|")[2].split())


@pytest.mark.parametrize("program", MODULES)
def test_version_and_help_import_no_command(program: str) -> None:
    slow = {"asyncio", "dotenv", "httpx", "msgspec", "nats", "pydantic", "rich", "uvicorn", "yaml"}
    slow |= {
        f"pyoco_server.{package}" for package in ("config", "http_api", "http_client", "records", "worker")
    }
    imported = modules_imported(program, ["--version"], ["--help"])
    assert "typer" in imported
    assert slow.isdisjoint(imported)


def test_a_command_with_a_choice_does_not_import_pydantic() -> None:
    get = ["get", "--server", "http://127.0.0.1:1", "--run-id", A_RUN, "--output", "json"]
    imported = modules_imported("pyoco-client", get)
    assert "httpx" in imported
    assert "pydantic" not in imported


def test_a_program_without_arguments_shows_its_help() -> None:
    for module, code in ((CLIENT, 1), (ADMIN, 1)):
        done = call_command(module)
        assert done.returncode == code
        assert "Usage: " in done.stdout + done.stderr


@pytest.mark.usefixtures("in_folder")
def test_help_shows_examples_that_can_be_parsed() -> None:
    for name, command in commands():
        _, *lines = command.epilog.replace("\b\n", "").splitlines()
        assert lines, name
        for line in lines:
            program, *words = shlex.split(line.replace("$RUN_ID", A_RUN))
            named = get_command(APPS[program])
            while words and words[0] in getattr(named, "commands", {}):
                named = named.commands[words.pop(0)]  # type: ignore[attr-defined]
            with contextlib.suppress(typer.Exit):  # --version ends the parsing
                named.make_context(name, words)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=1.5", 1.5),
        ("a=true", True),
        ("a=null", None),
        ('a={"b": [1]}', {"b": [1]}),
        ('a="1"', "1"),
        ("a=Ada", "Ada"),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ("a=NaN", "NaN"),
        ("a= x ", " x "),
        (" a =x", "x"),
    ],
)
def test_a_param_is_json_where_it_can_be_and_text_otherwise(text: str, value: object) -> None:
    assert params_from_pair(text) == {"a": value}


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LC_MESSAGES": "ja_JP.UTF-8", "LANG": "en_US.UTF-8"}, "ja"),
        ({"LC_ALL": "C", "LC_MESSAGES": "ja_JP.UTF-8", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"LC_ALL": "", "LANG": "ja"}, "ja"),
    ],
)
def test_the_language_is_that_of_the_locale_variables(environ: dict[str, str], language: str) -> None:
    assert system_language(environ) == language
