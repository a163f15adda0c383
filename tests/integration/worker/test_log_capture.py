"""Every line that a task prints reaches the log stream while the task runs."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import LogLine
from pyoco_server.worker import PyocoNatsWorker
from tests.flows import durable
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually


async def lines_of(gateway: RunningGateway, run_id: str) -> list[LogLine]:
    config = gateway.inside.config
    subject = f"{config.run_log_subject_prefix}.{run_id}"
    batch = await read_batch(gateway.inside.connection, config.run_log_stream, subject)
    return [line for message in batch for line in msgspec.json.decode(message.data, type=list[LogLine])]


async def test_lines_arrive_while_the_task_runs_with_their_task_and_stream(
    config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    async with serving_worker(config):
        run_id = await gateway.submit("talking", params={"release": str(release)})

        async def four_lines() -> list[LogLine]:
            lines = await lines_of(gateway, run_id)
            return lines if len(lines) >= 4 else []

        lines = await eventually(four_lines, describe="four lines are in the log")
        assert {(line.task, line.stream, line.text) for line in lines} == {
            ("talk", "stdout", "first line"),
            ("talk", "stderr", "to stderr"),
            ("talk", "stdout", "from a child"),
            ("talk", "stderr", "from the descriptor"),
        }
        assert (await gateway.get(run_id))["status"] == "RUNNING"
        release.touch()
        run = await gateway.ends(run_id)
        # At the moment the end is visible, the log is complete.
        assert [(line.task, line.text) for line in (await lines_of(gateway, run_id))[4:]] == [
            ("talk", "without an end"),
            ("after", "second task"),
        ]
        assert "from a child" in run["task_records"]["talk"]["stdout"]


async def test_output_above_the_limit_is_dropped_with_a_note(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    config = replace(config, run_log_run_max_bytes=10_000, run_log_line_max_bytes=100)
    async with serving_worker(config):
        run_id = await gateway.submit("flooding", params={"lines": 50_000, "width": 300})
        await gateway.ends(run_id)
        lines = await lines_of(gateway, run_id)
        printed = [line for line in lines if line.stream == "stdout"]
        notes = [line.text for line in lines if line.stream == "note"]
        assert sum(len(line.text) for line in printed) < 12_000
        assert printed[0].text.startswith("0 xxx")
        assert printed[0].text.endswith("... (202 more characters)")
        assert notes[0] == "more than PYOCO_RUN_LOG_RUN_MAX_BYTES=10000 was printed; the rest is dropped"
        dropped = re.fullmatch(r"(\d+) lines were dropped in all \(.*\)", notes[1])
        assert dropped
        assert int(dropped[1]) + len(printed) == 50_000


async def test_the_last_output_of_a_crash_is_in_the_log(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run = await gateway.ends(await gateway.submit("dying"))
        assert (run["status"], run["reason"]) == ("FAILED", "executor_crashed")
        texts = [line.text for line in await lines_of(gateway, run["run_id"])]
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
    config: NatsBackendConfig, gateway: RunningGateway, width: int, times: int
) -> None:
    async with serving_worker(replace(config, run_log_line_max_bytes=256 * 1024)):
        run_id = await gateway.submit("shouting", params={"width": width, "times": times})
        run = await gateway.ends(run_id)
        assert run["status"] == "COMPLETED", run["error"]
        text = "".join(each.text for each in await lines_of(gateway, run_id))
        assert len(text) == (width - 1) * times


async def test_lines_of_an_embedded_worker_are_logged_and_printed(
    config: NatsBackendConfig,
    gateway: RunningGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    worker = await PyocoNatsWorker.connect(config, flow_resolver=lambda _: durable.flooding)
    try:
        run_id = await gateway.submit("flooding", params={"lines": 2, "width": 1})
        await worker.run_once(timeout=LIMIT_SEC)
        assert [line.text for line in await lines_of(gateway, run_id)] == ["0 x", "1 x"]
        assert capsys.readouterr().out == "0 x\n1 x\n"
    finally:
        await worker.close()


async def test_many_short_lines_are_stored_without_delay(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("counting-at-once", params={"lines": 20_000})
        await gateway.ends(run_id)
        assert [line.text for line in await lines_of(gateway, run_id)] == [
            *map(str, range(20_000)),
            "all counted",
        ]
