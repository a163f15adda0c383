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
