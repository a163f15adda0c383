"""Every line that a task prints reaches the log stream while the task runs."""

import re
from pathlib import Path

import msgspec
import pytest

from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.records.runs.log_models import LogLine
from tests.flows import durable
from tests.integration.worker.conftest import OwnQueue
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def lines_of(gateway: RunningGateway, run_id: str) -> list[LogLine]:
    config = gateway.inside.config
    subject = f"{config.run_log_subject_prefix}.{run_id}"
    batch = await read_batch(gateway.inside.connection, config.run_log_stream, subject)
    return [line for message in batch for line in msgspec.json.decode(message.data, type=list[LogLine])]


async def test_lines_arrive_while_the_task_runs_with_their_task_and_stream(
    served: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run_id = await served.submit("talking", params={"release": str(release)})

    async def four_lines() -> list[LogLine]:
        lines = await lines_of(served, run_id)
        return lines if len(lines) >= 4 else []

    lines = await eventually(four_lines, describe="four lines are in the log")
    assert {(line.task, line.stream, line.text) for line in lines} == {
        ("talk", "stdout", "first line"),
        ("talk", "stderr", "to stderr"),
        ("talk", "stdout", "from a child"),
        ("talk", "stderr", "from the descriptor"),
    }
    assert (await served.get(run_id))["status"] == "RUNNING"
    release.touch()
    run = await served.ends(run_id)
    # At the moment the end is visible, the log is complete.
    assert [(line.task, line.text) for line in (await lines_of(served, run_id))[4:]] == [
        ("talk", "without an end"),
        ("after", "second task"),
    ]
    assert "from a child" in run["task_records"]["talk"]["stdout"]


async def test_output_above_the_limit_is_dropped_with_a_note(own_queue: OwnQueue) -> None:
    async with own_queue.worker(run_log_run_max_bytes=10_000, run_log_line_max_bytes=100):
        run = await own_queue.run("flooding", params={"lines": 5000, "width": 300})
    lines = await lines_of(own_queue.gateway, run["run_id"])
    printed = [line for line in lines if line.stream == "stdout"]
    notes = [line.text for line in lines if line.stream == "note"]
    assert sum(len(line.text) for line in printed) < 12_000
    assert printed[0].text.startswith("0 xxx")
    assert printed[0].text.endswith("... (202 more characters)")
    assert notes[0] == "more than PYOCO_RUN_LOG_RUN_MAX_BYTES=10000 was printed; the rest is dropped"
    dropped = re.fullmatch(r"(\d+) lines were dropped in all \(.*\)", notes[1])
    assert dropped
    assert int(dropped[1]) + len(printed) == 5000


async def test_the_last_output_of_a_crash_is_in_the_log(served: RunningGateway) -> None:
    run = await served.run("dying")
    assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
    texts = [line.text for line in await lines_of(served, run["run_id"])]
    assert texts == ["about to die", "last words"]
    assert "last words" in run["error"]


@pytest.mark.parametrize(
    ("width", "times"),
    # A line of half a page and some takes a page of the pipe, which is then full long before it holds all
    # it could.
    [(100, 3000), (300_000, 1), (2060, 100)],
    ids=["many writes", "one write", "half pages"],
)
async def test_native_code_that_holds_the_gil_may_print_more_than_a_pipe_holds(
    own_queue: OwnQueue, width: int, times: int
) -> None:
    async with own_queue.worker(run_log_line_max_bytes=256 * 1024):
        run = await own_queue.run("shouting", params={"width": width, "times": times})
    assert run["status"] == "COMPLETED", run["error"]
    text = "".join(each.text for each in await lines_of(own_queue.gateway, run["run_id"]))
    assert len(text) == (width - 1) * times


async def test_lines_of_an_embedded_worker_are_logged_and_printed(
    own_queue: OwnQueue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    async with own_queue.idle_worker(durable.flooding, "embedded") as worker:
        run_id = await own_queue.submit("flooding", params={"lines": 2, "width": 1})
        await worker.run_once(timeout=LIMIT_SEC)
    assert [line.text for line in await lines_of(own_queue.gateway, run_id)] == ["0 x", "1 x"]
    assert capsys.readouterr().out == "0 x\n1 x\n"


async def test_many_short_lines_are_stored_without_delay(served: RunningGateway) -> None:
    run = await served.run("counting-at-once", params={"lines": 20_000})
    assert [line.text for line in await lines_of(served, run["run_id"])] == [
        *map(str, range(20_000)),
        "all counted",
    ]
