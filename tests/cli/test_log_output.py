"""A program whose log output fails goes on."""

import json
import os
import subprocess
import sys
import textwrap

from tests.support.waiting import LIMIT_SEC


def run_program(body: str, *, close_stdout_early: bool = False) -> subprocess.CompletedProcess[str]:
    """A real program that logs, in a process of its own."""
    program = textwrap.dedent(
        """
        import logging, sys
        from pyoco_server.config import NatsBackendConfig
        from pyoco_server.telemetry.logging_config import configure_logging
        configure_logging(service="pyoco-server:worker", config=NatsBackendConfig())
        log = logging.getLogger("program")
        """
    ) + textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # Buffered, as programs are: what is left in the buffer is what fails once more at exit.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    if close_stdout_early:
        process.stdout.close()
        process.stdout = None
    # The program waits for its input to end before it logs, so the pipe is surely closed by then.
    out, err = process.communicate(timeout=LIMIT_SEC)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class TestOutputFailure:
    def test_a_reader_that_went_away_does_not_end_the_program(self) -> None:
        done = run_program(
            """
            sys.stdin.read()
            for number in range(2000):
                log.error("line %d", number)
            sys.exit(7)
            """,
            close_stdout_early=True,
        )
        assert done.returncode == 7, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith("ERR-PYOCO-0013 Log output failed (best effort): BrokenPipeError: ")

    def test_a_closed_standard_output_does_not_end_the_program(self) -> None:
        done = run_program(
            """
            sys.stdin.read()
            sys.stdout.close()
            log.error("one")
            log.error("two")
            sys.exit(7)
            """
        )
        assert done.returncode == 7, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith("ERR-PYOCO-0013 Log output failed (best effort): ValueError: ")

    def test_nobody_left_to_tell_does_not_end_the_program(self) -> None:
        done = run_program(
            """
            sys.stdin.read()
            sys.stdout.close()
            sys.stderr.close()
            log.error("one")
            sys.exit(7)
            """
        )
        assert (done.returncode, done.stdout, done.stderr) == (7, "", "")

    def test_a_program_that_can_write_tells_nothing_on_stderr(self) -> None:
        done = run_program("sys.stdin.read(); log.error('one')")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["message"] == "one"
