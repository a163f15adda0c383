"""An executor is used for one run after another: no run finds the process state of an earlier one."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.ipc.protocol import Outcome, Run
from tests.support.inspection import started_pid
from tests.support.running.executors import ExecutorUnderTest, new_run, new_setup
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


def run_in(folder: Path, flow: str, **params: Any) -> Run:
    run = new_run(flow, f"{flow}-{time.monotonic_ns()}", **params)
    run.directory = str(folder / "runs" / f"{run.run_id}-1")
    return run


async def end_of(executor: ExecutorUnderTest, run: Run) -> Outcome:
    async with asyncio.timeout(LIMIT_SEC):
        return await executor.execute(run)


async def result_of(executor: ExecutorUnderTest, run: Run, task: str) -> Any:
    outcome = await end_of(executor, run)
    assert outcome.status == "COMPLETED", outcome.error
    return msgspec.json.decode(outcome.task_records[task])["output"]


async def test_process_state_is_restored_between_runs(executor: ExecutorUnderTest, tmp_path: Path) -> None:
    # pytest sets another environment variable for fixtures than for tests.
    executor.retire()
    first = await result_of(executor, run_in(tmp_path, "showing"), "state")
    differing = dict[str, Any]()
    for what in (*RESTORED, *REPLACED, *EITHER):
        pid = await result_of(executor, run_in(tmp_path, "leaving-behind", what=what), "leave")
        state = await result_of(executor, run_in(tmp_path, "showing"), "state")
        if state != first:
            differing[what] = {name: value for name, value in state.items() if value != first[name]}
        assert what in EITHER or (executor.started.pid == pid) is (what in RESTORED), what
    assert differing == {}


@pytest.mark.usefixtures("new_interpreters")
async def test_removing_the_folder_of_the_worker_does_not_change_an_outcome(
    executor: ExecutorUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_folder = tmp_path / "release-1"
    start_folder.mkdir()
    monkeypatch.chdir(start_folder)
    release, marker = tmp_path / "release", tmp_path / "started"
    run = run_in(tmp_path, "waiting", path=str(release), started=str(marker))
    execution = asyncio.create_task(end_of(executor, run))
    pid = await started_pid(marker)
    start_folder.rmdir()
    release.touch()
    assert (await execution).status == "COMPLETED"
    # The next run uses the executor, and another one can be started there.
    assert await result_of(executor, run_in(tmp_path, "pid"), "pid") == pid
    executor.retire()
    assert await result_of(executor, run_in(tmp_path, "pid"), "pid") != pid


async def test_a_failure_to_clean_up_replaces_the_executor_and_not_the_outcome(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    pid = await result_of(executor, run_in(tmp_path, "breaking-its-folder"), "break")
    assert await result_of(executor, run_in(tmp_path, "pid"), "pid") != pid


@pytest.mark.parametrize("files", [[], ["left.txt"], ["artifacts/left.txt"]])
async def test_the_folder_of_a_crashed_executor_is_removed_unless_the_run_left_files(
    executor: ExecutorUnderTest, tmp_path: Path, files: list[str]
) -> None:
    # So that there is a spare folder, which belongs to no run.
    await end_of(executor, run_in(tmp_path, "noop"))
    run = run_in(tmp_path, "crashing-in-folder", files=files)
    with pytest.raises(ExecutorCrashed):
        await end_of(executor, run)
    assert run.directory is not None
    kept = [Path(run.directory).name] if files else []
    assert os.listdir(tmp_path / "runs") == kept
    assert all((Path(run.directory) / name).read_text() == "by a task" for name in files)


async def test_an_idle_executor_that_is_killed_leaves_no_folder(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    await end_of(executor, run_in(tmp_path, "noop"))
    assert os.listdir(tmp_path / "runs") == [f".spare-{executor.started.pid}"]
    await executor.end()
    assert os.listdir(tmp_path / "runs") == []


COUNTING = """
from pyoco import Flow, task

runs = 0

@task
def count():
    global runs
    runs += 1
    return runs

counting_runs = Flow("counting_runs") >> count
"""


@pytest.mark.parametrize(("reuse", "counted"), [("tenant", [1, 2, 3]), ("never", [1, 1, 1])])
async def test_module_globals_survive_unless_each_run_has_a_new_process(
    tmp_path: Path, reuse: str, counted: list[int]
) -> None:
    (tmp_path / "counting_runs.py").write_text(COUNTING)
    executor = ExecutorUnderTest(new_setup(tmp_path), reuse=reuse)
    try:
        assert [await result_of(executor, new_run("counting_runs"), "count") for _ in counted] == counted
    finally:
        await executor.end()
