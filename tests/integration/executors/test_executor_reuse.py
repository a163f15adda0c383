"""An executor that is used for one run after another: none of them finds what an earlier one left behind."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, LogLine
from pyoco_server.records.wait_models import Question
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Outcome, Run, Setup
from tests.support.inspection import started_pid
from tests.support.places import FLOWS
from tests.support.waiting import LIMIT_SEC

RESTORED = [
    "nothing",
    "an alarm",
    "a timer",
    "a timer and its handler",
    "a traceback timer",
    "a handler",
    "an ignored signal",
    "a variable",
    "no variable",
    "a umask",
    "a soft limit",
    "a folder",
]
REPLACED = [
    "a blocked signal",
    "a low priority",
    "a closed descriptor",
    "another descriptor",
    "a pipe of its own",
]
# A privileged process can raise it again.
EITHER = ["a hard limit"]


class Ignored:
    def finished(self, entry: JournalEntry) -> None: ...
    def asked(self, question: Question) -> None: ...
    def printed(self, lines: list[LogLine]) -> None: ...


@pytest.fixture
async def executor() -> AsyncIterator[ProcessExecutor]:
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(FLOWS)))
    try:
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


def a_run(folder: Path, flow: str, **params: Any) -> Run:
    run_id = f"{flow}-{time.monotonic_ns()}"
    return Run(
        run_id=run_id,
        flow_name=flow,
        params=msgspec.json.encode(params),
        directory=str(folder / "runs" / f"{run_id}-1"),
    )


async def end_of(executor: ProcessExecutor, run: Run) -> Outcome:
    async with asyncio.timeout(LIMIT_SEC):
        return await executor.execute(run, Ignored())


async def result_of(executor: ProcessExecutor, run: Run, task: str) -> Any:
    outcome = await end_of(executor, run)
    assert outcome.status == "COMPLETED", outcome.error
    return msgspec.json.decode(outcome.task_records[task])["output"]


@pytest.mark.parametrize("what", [*RESTORED, *REPLACED, *EITHER])
async def test_a_run_finds_its_process_as_the_first_one_did(
    executor: ProcessExecutor, tmp_path: Path, what: str
) -> None:
    first = await result_of(executor, a_run(tmp_path, "showing"), "state")
    pid = await result_of(executor, a_run(tmp_path, "leaving-behind", what=what), "leave")
    assert await result_of(executor, a_run(tmp_path, "showing"), "state") == first
    assert what in EITHER or (executor.pid == pid) is (what in RESTORED)


async def test_an_outcome_stands_although_the_folder_of_the_worker_is_removed_meanwhile(
    executor: ProcessExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_folder = tmp_path / "release-1"
    start_folder.mkdir()
    monkeypatch.chdir(start_folder)
    release, marker = tmp_path / "release", tmp_path / "started"
    run = a_run(tmp_path, "waiting", path=str(release), started=str(marker))
    execution = asyncio.create_task(end_of(executor, run))
    pid = await started_pid(marker)
    start_folder.rmdir()
    release.touch()
    assert (await execution).status == "COMPLETED"
    # The next run finds an executor, and so does one whose executor has to be started there.
    assert await result_of(executor, a_run(tmp_path, "pid"), "pid") == pid
    executor.retire()
    assert await result_of(executor, a_run(tmp_path, "pid"), "pid") != pid


async def test_a_failure_to_clean_up_replaces_the_executor_and_not_the_outcome(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    pid = await result_of(executor, a_run(tmp_path, "breaking-its-folder"), "break")
    assert await result_of(executor, a_run(tmp_path, "pid"), "pid") != pid


@pytest.mark.parametrize("files", [[], ["left.txt"], ["artifacts/left.txt"]])
async def test_the_folder_of_a_crashed_executor_is_removed_unless_the_run_left_files(
    executor: ProcessExecutor, tmp_path: Path, files: list[str]
) -> None:
    # So that there is a spare folder, which belongs to no run.
    await end_of(executor, a_run(tmp_path, "noop"))
    run = a_run(tmp_path, "crashing-in-folder", files=files)
    with pytest.raises(ExecutorCrashed):
        await end_of(executor, run)
    assert run.directory is not None
    kept = [Path(run.directory).name] if files else []
    assert os.listdir(tmp_path / "runs") == kept
    assert all((Path(run.directory) / name).read_text() == "by a task" for name in files)


async def test_an_idle_executor_that_is_killed_leaves_no_folder(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    await end_of(executor, a_run(tmp_path, "noop"))
    assert executor.pid is not None
    assert os.listdir(tmp_path / "runs") == [f".spare-{executor.pid}"]
    await executor.abandon()
    await executor.close()
    assert os.listdir(tmp_path / "runs") == []
