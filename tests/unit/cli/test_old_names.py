"""Spellings of the public package: translated, and the new one is said."""

import os

import pytest

from pyoco_server.cli.old_names import translated
from pyoco_server.errors import InvalidCliArgument


@pytest.mark.parametrize(
    ("program", "given", "expected", "says"),
    [
        ("pyoco-server", "", "up", "use `pyoco-server up`"),
        ("pyoco-server", "--port 8080", "up --port 8080", "use `pyoco-server up`"),
        ("pyoco-server", "up --nats-client-port 4333", "up --nats-port 4333", "use `--nats-port`"),
        ("pyoco-server", "up --nats-http-port=8222 --port 1", "up --port 1", "has no effect"),
        ("pyoco-worker", "--flow-resolver f.py:r --tags a", "--resolver f.py:r --tags a", "use `--resolver`"),
        ("pyoco-worker", "--flow-resolver=m:r", "--resolver m:r", "use `--resolver`"),
        ("pyoco-worker", "--poll-timeout 1", "", "a worker receives jobs as they come"),
        (
            "pyoco-server-admin",
            "--nats-url nats://a api-key list",
            "api-key list --nats-url nats://a",
            "after the command",
        ),
        (
            "pyoco-server-admin",
            "--nats-url=nats://a api-key list",
            "api-key list --nats-url=nats://a",
            "after the command",
        ),
        ("pyoco-client", "get --records X", "get --include records X", "use `--include records`"),
        ("pyoco-client", "watch --until-terminal X", "watch X", "a watch ends with its run"),
        ("pyoco-client", "wheel-upload --preflight off --name x", "wheel-upload --name x", "every wheel"),
    ],
)
def test_an_old_spelling_is_translated_and_the_new_one_is_said(
    capsys: pytest.CaptureFixture[str], program: str, given: str, expected: str, says: str
) -> None:
    assert translated(program, given.split()) == expected.split()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Deprecated: ")
    assert says in line


@pytest.mark.parametrize(
    ("program", "given", "setting", "value"),
    [
        ("pyoco-server", "up --log-level warning", "PYOCO_LOG_LEVEL", "WARNING"),
        ("pyoco-worker", "--wheel-sync", "PYOCO_WHEEL_SYNC_ENABLED", "true"),
        ("pyoco-worker", "--no-wheel-sync", "PYOCO_WHEEL_SYNC_ENABLED", "false"),
        ("pyoco-worker", "--wheel-sync-dir /w", "PYOCO_WHEEL_SYNC_DIR", "/w"),
        ("pyoco-client", "--api-key-header X-Key list", "PYOCO_HTTP_API_KEY_HEADER", "X-Key"),
    ],
)
def test_an_option_that_became_a_setting_sets_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    given: str,
    setting: str,
    value: str,
) -> None:
    monkeypatch.setenv(setting, "before")
    assert not set(translated(program, given.split())) & {given.rsplit(maxsplit=1)[-1]} - {"list"}
    assert os.environ[setting] == value
    assert f"set {setting}={value}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "given"),
    [
        ("pyoco-server", "--help"),
        ("pyoco-server", "--version"),
        ("pyoco-server", "dev --flows f"),
        ("pyoco-server", "--dashboard-lang ja dev"),
        ("pyoco-worker", "--resolver m:r"),
        ("pyoco-server-admin", "adopt --nats-url nats://a"),
        ("pyoco-client", "list --output json"),
    ],
)
def test_our_own_spellings_pass_without_a_line(
    capsys: pytest.CaptureFixture[str], program: str, given: str
) -> None:
    assert translated(program, given.split()) == given.split()
    assert capsys.readouterr().err == ""


def test_what_has_no_counterpart_is_refused_with_the_cure() -> None:
    with pytest.raises(InvalidCliArgument, match=r"--run-once is not supported.*worker.run_once"):
        translated("pyoco-worker", ["--run-once"])
