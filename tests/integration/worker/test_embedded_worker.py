"""An embedded worker: a run that does not stop affects neither later runs nor the program."""

import asyncio
import io
import sys
import threading
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.child.printed_lines import TaskOutput
from pyoco_server.worker.executors.thread_executor import EmbeddedOutput
from tests.integration.worker.conftest import OwnQueue
from tests.integration.worker.test_log_capture import lines_of
from tests.support.waiting import LIMIT_SEC, eventually


class Talkers:
    """Two flows that print, each until the test lets it go."""

    def __init__(self, *, limit: float | None) -> None:
        self.started = {"stubborn": threading.Event(), "second": threading.Event()}
        self.released = {"stubborn": threading.Event(), "second": threading.Event()}
        self.followed = threading.Event()
        self.flows = {
            "stubborn": Flow("stubborn")
            >> TaskWrapper(Task(func=lambda: self._talk("stubborn"), name="stubborn", timeout_sec=limit))
            >> TaskWrapper(Task(func=self._follow, name="follow")),
            "second": Flow("second") >> TaskWrapper(Task(func=lambda: self._talk("second"), name="second")),
        }

    def _talk(self, name: str) -> None:
        say(f"{name} begins")
        say(f"{name} goes on", end="")
        self.started[name].set()
        self.released[name].wait(LIMIT_SEC)
        say(f"\n{name} ends")

    def _follow(self) -> None:
        self.followed.set()

    async def has_started(self, name: str) -> None:
        await eventually(self.started[name].is_set, describe=f"{name} has started")

    def release_all(self) -> None:
        for event in self.released.values():
            event.set()


def say(text: str, *, end: str = "\n") -> None:
    """Into whatever `sys.stdout` is now, as `print` does."""
    sys.stdout.write(text + end)


def own_stdout(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Not a fixture: pytest sets its own between the fixtures and the test."""
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    return stdout


def flows_on_threads() -> int:
    """How many flows are still executed, whether anybody waits for them or not."""
    return sum(getattr(task.get_coro(), "__name__", "") == "to_thread" for task in asyncio.all_tasks())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("how", ["timeout", "cancel_forced"])
async def test_the_output_of_a_killed_run_is_not_captured_by_the_next(
    own_queue: OwnQueue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    program_stdout = own_stdout(monkeypatch)
    # Long enough for it to talk, also on a machine that stands still meanwhile.
    talkers = Talkers(limit=1.0 if how == "timeout" else None)
    gateway = own_queue.gateway
    worker = await PyocoNatsWorker.connect(
        # By position, in the order of the contract.
        replace(gateway.inside.config, cancel_grace_period_sec=0.2),
        talkers.flows.__getitem__,
        "worker",
        [own_queue.tag],
    )
    try:
        abandoned = await own_queue.submit("stubborn")
        running = asyncio.create_task(worker.run_once(timeout=LIMIT_SEC))
        await talkers.has_started("stubborn")
        if how == "cancel_forced":
            await gateway.http.post(f"/runs/{abandoned}/cancel")
        assert await running == abandoned
        assert (await gateway.get(abandoned))["reason"] == how
        assert sys.stdout is program_stdout
        say("the program goes on")

        second = await own_queue.submit("second")
        running = asyncio.create_task(worker.run_once(timeout=LIMIT_SEC))
        await talkers.has_started("second")
        talkers.released["stubborn"].set()
        await eventually(lambda: flows_on_threads() == 1, describe="the abandoned flow has ended")
        talkers.released["second"].set()
        assert await running == second

        assert sys.stdout is program_stdout
        texts = [[line.text for line in await lines_of(gateway, run_id)] for run_id in (abandoned, second)]
        assert texts == [
            ["stubborn begins", "stubborn goes on"],
            ["second begins", "second goes on", "second ends"],
        ]
        shown = program_stdout.getvalue()
        assert all(text in shown for text in ("stubborn ends\n", "the program goes on\n", "second ends\n"))
        # What an abandoned run still does has no effect, and it stops where it can.
        assert not talkers.followed.is_set()
        assert await Journal(gateway.inside.connection).entries(own_queue.tag, abandoned) == []
    finally:
        talkers.release_all()
        await worker.close()


def hearing() -> tuple[EmbeddedOutput, list[str]]:
    heard: list[str] = []

    def tell(lines: list[LogLine]) -> None:
        heard.extend(line.text for line in lines)

    return EmbeddedOutput(TaskOutput(tell, line_limit=100, run_limit=1000)), heard


def test_two_concurrent_runs_restore_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    program_stdout = own_stdout(monkeypatch)
    (first, first_heard), (second, second_heard) = hearing(), hearing()
    first.__enter__()
    with second:
        first.__exit__()
        say("heard by the second")
    assert sys.stdout is program_stdout
    assert (first_heard, second_heard) == ([], ["heard by the second"])


def test_a_stream_of_an_ended_run_is_bypassed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program_stdout = own_stdout(monkeypatch)
    (first, first_heard), (second, second_heard) = hearing(), hearing()
    with first:
        late = redirect_stdout(io.StringIO())
        late.__enter__()
    late.__exit__(None, None, None)
    say("heard by nobody")
    with second:
        say("heard by the second")
    assert sys.stdout is program_stdout
    assert (first_heard, second_heard) == ([], ["heard by the second"])
    assert program_stdout.getvalue() == "heard by nobody\nheard by the second\n"
