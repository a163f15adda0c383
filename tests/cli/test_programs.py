"""The programs as a user starts them."""

import sys

import pytest

from tests.support.programs import ADMIN, CLIENT, SERVER, WORKER, started


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (SERVER, ["up", "--port", "x"]),
        (WORKER, ["--tag", "a.b"]),
        (CLIENT, ["submit"]),
        (ADMIN, ["what"]),
    ],
)
def test_a_usage_error_exits_with_1(module: str, arguments: list[str]) -> None:
    with started([sys.executable, "-m", module, *arguments]) as program:
        assert (program.end(), program.stdout) == (1, "")
        assert "ERR-PYOCO-0018" in program.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_an_empty_one(closed: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    with started([*shell, sys.executable, "-m", CLIENT, "--version"]) as program:
        assert (program.end(), program.stderr) == (0, "")


def test_a_prompt_without_standard_input_is_a_usage_error() -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh"]
    run_id = "00000000-0000-0000-0000-000000000000"
    with started([*shell, sys.executable, "-m", CLIENT, "resume", run_id]) as program:
        assert (program.end(), program.stdout) == (1, "")
        assert program.stderr.startswith("ERR-PYOCO-0018 ")
