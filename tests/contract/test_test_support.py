"""The helpers of the tests: NATS accounts, servers, forked programs and their stand-ins, and waiting."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nats
import pytest
from nats.js import JetStreamContext

from pyoco_server.config import NatsBackendConfig
from tests.support import waiting
from tests.support.broker.nats_server import NatsServer
from tests.support.forks.fork_server import stand_ins
from tests.support.forks.stand_in import INTERPRETER, MODULES
from tests.support.order import spread
from tests.support.programs import environment, run_command
from tests.support.waiting import LIMIT_SEC, eventually, eventually_sync

INSTALLED: Final = Path(sys.executable).parent
# It reads its standard input to the end, and then rejects it.
READING: Final = "pyoco-client event stock --json -"
REJECTED: Final = 1
INTERRUPTED: Final = 130
# More than a pipe holds: the rest is written when somebody reads.
INPUT: Final = b"[" * 200_000


async def stream_names(context: JetStreamContext) -> list[str | None]:
    return [stream.config.name for stream in await context.streams_info()]


async def test_accounts_are_isolated(shared_config: NatsBackendConfig, nats_url: str) -> None:
    mine = await nats.connect(nats_url)
    other = await nats.connect(shared_config.nats_url)
    await mine.jetstream().add_stream(name="MINE", subjects=["mine"])
    assert await stream_names(mine.jetstream()) == ["MINE"]
    assert await stream_names(other.jetstream()) == []
    await mine.close()
    await other.close()


async def test_restarted_server_keeps_port_and_data(own_nats: NatsServer) -> None:
    url, pid = own_nats.url, own_nats.pid
    before = await nats.connect(url)
    await before.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await before.close()
    own_nats.kill()
    own_nats.restart()
    assert own_nats.url == url
    assert own_nats.pid != pid
    after = await nats.connect(url)
    assert await stream_names(after.jetstream()) == ["KEPT"]
    await after.close()


def test_settings_use_the_account_of_the_test(config: NatsBackendConfig, nats_url: str) -> None:
    assert config.nats_url == nats_url


async def test_eventually_returns_the_value_or_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([0, None, 7])

    async def answer() -> int | None:
        return next(answers)

    assert await eventually(answer, describe="an answer") == 7
    monkeypatch.setattr(waiting, "LIMIT_SEC", 0.05)
    with pytest.raises(AssertionError, match=r"not within 0.05 s: the impossible \(last answer: False\)"):
        await eventually(lambda: False, describe="the impossible")
    with pytest.raises(AssertionError, match="the impossible"):
        eventually_sync(lambda: False, describe="the impossible")


async def test_eventually_raises_errors_of_the_probe() -> None:
    def broken() -> bool:
        raise TimeoutError("the probe's own")

    with pytest.raises(TimeoutError, match="the probe's own"):
        await eventually(broken, describe="never")


def test_forked_program_has_its_own_arguments_folder_and_environment(tmp_path: Path) -> None:
    """As with `python -m`: the working directory is on the import path."""
    (tmp_path / "arguments.py").write_text(
        "import os, sys\nprint(sys.argv[1:], os.getcwd(), os.environ['PYOCO_X'])\n"
        "print('warning', file=sys.stderr)\nsys.exit(3)\n"
    )
    done = run_command("arguments", "one", "two", cwd=tmp_path, PYOCO_X="x")
    assert (done.returncode, done.stderr) == (3, "warning\n")
    assert done.stdout == f"['one', 'two'] {tmp_path} x\n"


def test_forked_program_that_is_killed_or_fails(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (tmp_path / "failing.py").write_text("raise ValueError('broken')\n")
    assert run_command("killed", cwd=tmp_path).returncode == -signal.SIGKILL
    failed = run_command("failing", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.endswith("ValueError: broken\n")


def in_shell(script: str, programs: Path, folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=shell_environment(programs),
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def shell_environment(programs: Path) -> dict[str, str]:
    return environment(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", PYOCO_SERVER="http://127.0.0.1:1")


@contextmanager
def reading_program(script: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A shell with this script, whose program reads its input already, and the end of that to write to."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen(
        ["bash", "-c", script],
        env=shell_environment(stand_ins()),
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as shell:
        os.close(reading)
        left = INPUT
        try:
            while left:
                _, writable, _ = select.select([], [writing], [], LIMIT_SEC)
                assert writable, "nobody reads"
                left = left[os.write(writing, left) :]
            yield shell, writing
        finally:
            os.close(writing)


@pytest.mark.parametrize(
    "script",
    [
        *(f"{program} --version" for program in MODULES),
        "echo '[' | pyoco-client event stock --json -",
        "cd folder; pyoco-client event stock --json @data.json > a 2> b; echo $?; cat a b",
    ],
)
def test_a_shell_sees_no_difference_between_a_stand_in_and_the_installed_program(
    script: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.json").write_text("{")
    assert in_shell(script, stand_ins(), tmp_path) == in_shell(script, INSTALLED, tmp_path)


def test_the_stand_in_of_the_interpreter_runs_other_code_itself(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv, sys.flags.isolated, sys.prefix)"
    for options in (f'-c "{code}" a b', f'-I -c "{code}"', "-m json.tool --help"):
        assert in_shell(f"{INTERPRETER} {options}", stand_ins(), tmp_path) == in_shell(
            f"python {options}", INSTALLED, tmp_path
        )


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_to_a_stand_in_ends_its_program(number: signal.Signals, code: int) -> None:
    with reading_program(f"exec {READING}") as (shell, writing):
        shell.send_signal(number)
        assert shell.wait(LIMIT_SEC) == code
        closed = select.poll()
        closed.register(writing, 0)
        # Nobody has the other end open.
        assert closed.poll(LIMIT_SEC * 1000) == [(writing, select.POLLERR)]


@pytest.mark.parametrize(
    ("number", "code"),
    # The shell has it ignore Ctrl-C.
    [
        (signal.SIGINT, REJECTED),
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGKILL, 128 + signal.SIGKILL),
    ],
)
def test_a_signal_to_a_stand_in_in_the_background(number: signal.Signals, code: int) -> None:
    with reading_program(f"{READING} <&0 & echo $!; wait $!") as (shell, _):
        assert shell.stdout is not None
        os.kill(int(shell.stdout.readline()), number)
        if code != REJECTED:
            # Before the end of its input, which ends the program as well.
            shell.wait(LIMIT_SEC)
    assert shell.returncode == code


@pytest.mark.parametrize("processes", [2, 7])
@pytest.mark.parametrize("modules", [0, 5, 100])
def test_spread_order_keeps_every_test_and_begins_with_whole_long_modules(
    modules: int, processes: int
) -> None:
    names = ["tests/unit/test_short.py", "tests/cli/test_dev.py", "tests/faults/test_killed_commands.py"]
    tests = [
        (f"{names[number % 3]}{number}", each) for number in range(modules) for each in range(1 + number % 5)
    ]
    ordered = spread(tests, processes, lambda test: test[0])
    assert sorted(ordered) == sorted(tests)
    if modules == 100:
        part = len(tests) // processes
        assert all("unit" not in ordered[process * part][0] for process in range(processes))
        places = [place for place, (name, _) in enumerate(ordered) if name == "tests/cli/test_dev.py4"]
        assert places == list(range(places[0], places[0] + 5))
