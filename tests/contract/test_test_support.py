"""The helpers of the tests: NATS accounts, servers, forked programs, and waiting."""

import signal
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext

from pyoco_server.config import NatsBackendConfig
from tests.support import waiting
from tests.support.broker.nats_server import NatsServer
from tests.support.order import spread
from tests.support.programs import run_command
from tests.support.waiting import eventually, eventually_sync


async def stream_names(context: JetStreamContext) -> list[str | None]:
    return [stream.config.name for stream in await context.streams_info()]


async def test_accounts_are_isolated(shared_nats: NatsServer, nats_url: str) -> None:
    mine = await nats.connect(nats_url)
    other = await nats.connect(shared_nats.account_urls[-1])
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
