"""Output on the descriptors of an executor is in the log of its run, however the executor ends."""

import asyncio
from typing import Any

import msgspec
import pytest

from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.stdio_pipes import StdioPipes
from pyoco_server.worker.ipc.protocol import Outcome, ReadOutput
from tests.support.running.executors import ExecutorUnderTest, RunEventLog, new_run
from tests.support.waiting import LIMIT_SEC


async def ended(executor: ExecutorUnderTest, flow: str, **params: Any) -> tuple[Outcome, RunEventLog]:
    log = RunEventLog()
    async with asyncio.timeout(LIMIT_SEC):
        return await executor.execute(new_run(flow, **params), log), log


async def crashed(
    executor: ExecutorUnderTest, flow: str, **params: Any
) -> tuple[ExecutorCrashed, RunEventLog]:
    log = RunEventLog()
    with pytest.raises(ExecutorCrashed) as caught:
        async with asyncio.timeout(LIMIT_SEC):
            await executor.execute(new_run(flow, **params), log)
    return caught.value, log


@pytest.mark.parametrize(
    "flow", ["dying-while-read", "dying-when-reported", "dying-unread", "leaving-unread"]
)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("last line\n", ["last line"]),
        ("last\nline without an end", ["last", "line without an end"]),
        ("no line at all", ["no line at all"]),
    ],
)
async def test_output_before_a_crash_is_in_the_log_once(
    executor: ExecutorUnderTest, flow: str, text: str, lines: list[str]
) -> None:
    crash, log = await crashed(executor, flow, text=text)
    assert log.texts == lines
    assert crash.output == "\n".join(lines)


@pytest.mark.parametrize("flow", ["dying-while-read", "dying-when-reported"])
async def test_the_last_lines_of_a_crash_have_their_task(executor: ExecutorUnderTest, flow: str) -> None:
    _, log = await crashed(executor, flow, text="one\ntwo")
    assert [(line.task, line.stream, line.text) for line in log.lines] == [
        ("die", "stdout", "one"),
        ("die", "stdout", "two"),
    ]


async def test_unread_output_of_a_task_past_its_limit_is_in_the_log(
    executor: ExecutorUnderTest,
) -> None:
    outcome, log = await ended(executor, "outlasting", text="until the end")
    assert (outcome.status, outcome.reason) == ("FAILED", "timeout")
    assert log.texts == ["until the end"]


async def test_each_line_has_its_task_and_run(executor: ExecutorUnderTest) -> None:
    for number in range(20):
        outcome, log = await ended(executor, "writing-twice", text=f"run {number}\nno end")
        assert outcome.status == "COMPLETED"
        assert [(line.task, line.text) for line in log.lines] == [
            ("first", f"run {number}"),
            ("first", "no end"),
            ("second", f"run {number}"),
            ("second", "no end"),
        ]
        record = msgspec.json.decode(outcome.task_records["second"])
        assert record["stdout"] == f"run {number}\nno end"


async def test_a_line_may_come_from_python_and_from_the_descriptor(executor: ExecutorUnderTest) -> None:
    _, log = await ended(executor, "writing-in-parts")
    assert log.texts == ["half done"]


async def test_a_large_output_of_a_subprocess_is_complete(executor: ExecutorUnderTest) -> None:
    _, log = await ended(executor, "writing-much", lines=50_000, width=99)
    assert log.texts == [str(number).zfill(99) for number in range(50_000)]


async def test_a_subprocess_that_never_stops_writing_delays_no_run(executor: ExecutorUnderTest) -> None:
    outcome, _ = await ended(executor, "leaving-a-writer")
    assert outcome.status == "COMPLETED"
    outcome, _ = await ended(executor, "noop")
    assert outcome.status == "COMPLETED"


async def test_the_pipes_are_read_only_when_something_was_written(
    executor: ExecutorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = StdioPipes._read_for_executor

    def counted(self: StdioPipes, request: ReadOutput) -> None:
        reads.append(request.stream)
        read(self, request)

    monkeypatch.setattr(StdioPipes, "_read_for_executor", counted)
    _, log = await ended(executor, "speaking")
    assert log.texts == ["hello"]
    assert reads == []
    await ended(executor, "writing-twice", text="x")
    assert reads == ["stdout", "stdout"]
