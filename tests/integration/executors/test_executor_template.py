"""Executors that are forks of a template: what they share, what they do not, and the end of each."""

import asyncio
import os
import resource
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.aio.marked_processes import MARK_VARIABLE
from pyoco_server.worker.child.template_main import EXECUTOR_NAME
from pyoco_server.worker.executors import os_process
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.executor_template import ExecutorTemplate, ForkedProcess, TemplateLost
from tests.support.processes import descendants, is_alive
from tests.support.running.executors import ExecutorUnderTest, new_run, new_setup, started_executor
from tests.support.waiting import eventually, eventually_sync

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="executors are new interpreters elsewhere")

FLOWS = """
import os, random, signal, sys, time
from pyoco import Flow, task

@task
def facts():
    return {
        "pid": os.getpid(), "parent": os.getppid(), "random": random.random(), "folder": os.getcwd(),
        "session": os.getsid(0), "variable": os.environ.get("OF_THE_WORKER"),
        "own_files": os.listdir("/proc/self/fd") != [],
    }

@task
def die(number: int):
    os.kill(os.getpid(), number)

@task
def detach():
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return None
    os.setsid()
    if os.fork():
        os._exit(0)
    open(os.environ["DETACHED"], "w").write(str(os.getpid()))
    while True:
        time.sleep(600)

@task
def wait(path: str):
    open(path + ".started", "w").close()
    while not os.path.exists(path):
        time.sleep(0.01)
    return "waited"

facts_flow, die_flow = Flow("facts") >> facts, Flow("die") >> die
detach_flow, wait_flow = Flow("detach") >> detach, Flow("wait") >> wait
"""


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "flows.py").write_text(textwrap.dedent(FLOWS))
    return folder


@pytest.fixture
async def template() -> AsyncIterator[ExecutorTemplate]:
    template = ExecutorTemplate(hidden=True)
    yield template
    await template.close()


async def output_of(executor: ExecutorUnderTest, flow: str, **params: Any) -> Any:
    outcome = await executor.execute(new_run(flow, **params))
    assert outcome.status == "COMPLETED", outcome.error
    [record] = outcome.task_records.values()
    return msgspec.json.decode(record)["output"]


def template_pid(template: ExecutorTemplate) -> int:
    assert template._process is not None
    return template._process.pid


async def test_each_executor_is_a_session_of_its_own_with_the_environment_of_the_worker(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with started_executor(flows, template=template):
        # The environment and the folder are those of the start of an executor, not of the template.
        monkeypatch.setenv("OF_THE_WORKER", "a value")
        monkeypatch.chdir(tmp_path)
        async with (
            started_executor(flows, template=template) as one,
            started_executor(flows, template=template) as two,
        ):
            facts = [await output_of(executor, "facts") for executor in (one, two)]
            assert [each["pid"] for each in facts] == [one.started.pid, two.started.pid]
            assert {each["parent"] for each in facts} == {template_pid(template)}
            assert all(each["session"] == each["pid"] and each["own_files"] for each in facts)
            assert {each["variable"] for each in facts} == {"a value"}
            assert {Path(each["folder"]) for each in facts} == {tmp_path}
            assert facts[0]["random"] != facts[1]["random"], "the generator is not that of the template"
            assert Path(f"/proc/{one.started.pid}/comm").read_text().strip() == EXECUTOR_NAME


async def test_an_executor_is_usable_in_a_worker_with_many_descriptors(
    flows: Path, template: ExecutorTemplate
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("so many descriptors are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        async with started_executor(flows, template=template) as executor:
            process = executor.started._process
            assert isinstance(process, ForkedProcess)
            assert process._exit_event > 1023
            assert executor.started.is_usable
            assert not process.has_exited()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_the_signal_that_ended_an_executor_is_reported(
    flows: Path, template: ExecutorTemplate, number: signal.Signals
) -> None:
    async with started_executor(flows, template=template) as executor:
        with pytest.raises(ExecutorCrashed, match=f"was ended by {number.name}"):
            await executor.execute(new_run("die", number=int(number)))
        # The next run gets another process.
        assert (await output_of(executor, "facts"))["parent"] == template_pid(template)


async def test_what_a_task_forks_without_an_exec_ends_with_its_executor(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DETACHED", str(tmp_path / "detached"))
    async with (
        started_executor(flows, template=template) as executor,
        started_executor(flows, template=template),
    ):
        await executor.execute(new_run("detach"))
        written = tmp_path / "detached"
        detached = int(
            await eventually(lambda: written.exists() and written.read_text(), describe="it is detached")
        )
        mark = f"{MARK_VARIABLE}=".encode()
        marks = [
            next(
                each
                for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if each.startswith(mark)
            )
            for pid in (executor.started.pid, detached, template_pid(template))
        ]
        assert marks[0] == marks[1] != marks[2]
        assert is_alive(detached)
        await executor.end()
        await eventually(lambda: not is_alive(detached), describe="the detached process is killed")


async def test_a_run_survives_the_template_and_the_next_executor_has_another(
    flows: Path, template: ExecutorTemplate, tmp_path: Path
) -> None:
    async with started_executor(flows, template=template) as executor:
        first = template_pid(template)
        go_on = tmp_path / "go-on"
        waiting = executor.begin(new_run("wait", path=str(go_on)))
        await eventually((tmp_path / "go-on.started").exists, describe="the task has begun")
        os.kill(first, signal.SIGKILL)
        go_on.touch()
        assert (await waiting).status == "COMPLETED"
        with pytest.raises(ExecutorCrashed, match="the template process that started it has exited as well"):
            await executor.execute(new_run("die", number=int(signal.SIGKILL)))
        assert (await output_of(executor, "facts"))["parent"] == template_pid(template) != first


async def test_an_executor_is_a_new_interpreter_where_the_template_is_lost(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost() -> None:
        raise TemplateLost("no memory is left")

    monkeypatch.setattr(template, "_start", lost)
    monkeypatch.setattr(os_process, "create_subprocess_exec", asyncio.create_subprocess_exec)
    async with started_executor(flows, template=template) as executor:
        assert (await output_of(executor, "facts"))["parent"] == os.getpid()
    assert "an executor is started without its template: no memory is left" in caplog.text


async def test_a_template_that_does_not_reply_is_ended(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_process, "create_subprocess_exec", asyncio.create_subprocess_exec)
    async with started_executor(flows, template=template):
        stopped = template_pid(template)
        os.kill(stopped, signal.SIGSTOP)
        assert template._control is not None
        assert template._control.gettimeout() is not None
        template._control.settimeout(0.1)
        async with started_executor(flows, template=template) as other:
            assert (await output_of(other, "facts"))["parent"] == os.getpid()
        assert not is_alive(stopped)


async def test_an_executor_that_the_template_forks_too_late_ends(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_process, "create_subprocess_exec", asyncio.create_subprocess_exec)
    late: set[int] = set()
    async with started_executor(flows, template=template) as first:
        slow, end = template_pid(template), template._end

        def end_after_the_fork() -> None:
            os.kill(slow, signal.SIGCONT)
            others = {first.started.pid}
            late.update(eventually_sync(lambda: set(descendants(slow)) - others, describe="a late fork"))
            end()

        os.kill(slow, signal.SIGSTOP)
        assert template._control is not None
        template._control.settimeout(0.1)
        monkeypatch.setattr(template, "_end", end_after_the_fork)
        async with started_executor(flows, template=template) as other:
            # It would take a run of the other one, or its set-up.
            await eventually(lambda: not any(map(is_alive, late)), describe="the late executor has exited")
            assert (await output_of(other, "facts"))["pid"] == other.started.pid
        monkeypatch.undo()


async def test_closing_leaves_no_process(flows: Path, template: ExecutorTemplate) -> None:
    async with started_executor(flows, template=template) as executor:
        pids = [executor.started.pid, template_pid(template)]
    assert not is_alive(pids[0])
    await template.close()
    assert not set(pids) & set(descendants(os.getpid()))


async def test_a_cancelled_start_leaves_no_process_and_no_descriptor(
    flows: Path, template: ExecutorTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started_executor(flows, template=template):
        before = len(os.listdir("/proc/self/fd"))
        children = descendants(template_pid(template))
        in_fork = asyncio.Event()
        loop, fork = asyncio.get_running_loop(), template._fork

        def announced(*arguments: Any) -> Any:
            loop.call_soon_threadsafe(in_fork.set)
            return fork(*arguments)

        monkeypatch.setattr(template, "_fork", announced)
        other = ExecutorUnderTest(new_setup(flows), template=template)
        starting = asyncio.create_task(other.start())
        await in_fork.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert len(os.listdir("/proc/self/fd")) == before

        def left() -> list[int]:
            template.exit_code(0)  # has it collect who has exited
            return [pid for pid in descendants(template_pid(template)) if pid not in children]

        await eventually(lambda: not left(), describe="the executor of the cancelled start has exited")
