"""`GET /runs/{run_id}/logs`: pages of a run's output."""

import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes.runs import run_log_routes
from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.printing_runs import PrintingRun, begun

NO_RUN = "00000000-0000-4000-8000-000000000000"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest_asyncio.fixture(loop_scope="module")
async def run(gateway: RunningGateway) -> PrintingRun:
    return await begun(gateway.inside.connection)


async def logs(gateway: RunningGateway, run: PrintingRun, **query: Any) -> dict[str, Any]:
    response = await gateway.http.get(f"/runs/{run.run_id}/logs", params=query)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def texts(page: dict[str, Any]) -> list[str]:
    return [line["text"] for line in page["lines"]]


async def test_a_line_has_its_id_task_and_stream(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("one", "two")
    await run.prints("lost", task=None, stream="note", attempt=2)
    page = await logs(gateway, run)
    assert page["run_id"] == run.run_id
    first, second, third = page["lines"]
    for line, task, stream, text, attempt in (
        (second, "load", "stdout", "two", 1),
        (third, None, "note", "lost", 2),
    ):
        assert (line["task"], line["stream"], line["text"], line["attempt"]) == (task, stream, text, attempt)
    assert second["ts"] > 1_700_000_000
    sequence = first["id"].partition("-")[0]
    assert [first["id"], second["id"]] == [f"{sequence}-0", f"{sequence}-1"]
    assert (page["next_after"], page["complete"]) == (third["id"], False)


async def test_a_silent_run_has_an_empty_log(gateway: RunningGateway, run: PrintingRun) -> None:
    empty: dict[str, Any] = {"run_id": run.run_id, "lines": [], "next_after": None, "logs": []}
    assert await logs(gateway, run) == {**empty, "run_status": "PENDING", "complete": False}
    await run.ends()
    assert await logs(gateway, run) == {**empty, "run_status": "COMPLETED", "complete": True}


async def test_the_lines_around_one_are_read_without_the_others(
    gateway: RunningGateway, run: PrintingRun
) -> None:
    for batch in range(5):
        await run.prints(*(f"line {10 * batch + index}" for index in range(10)))
        # Other runs print too: sequences are those of all of them.
        await (await begun(gateway.inside.connection)).prints("of another run")
    ids = [line["id"] for line in (await logs(gateway, run))["lines"]]
    page = await logs(gateway, run, around=ids[20], limit=5)
    assert texts(page) == ["line 18", "line 19", "line 20", "line 21", "line 22"]
    assert "logs" not in page
    earlier = await logs(gateway, run, before=page["previous_before"], limit=20)
    assert texts(earlier) == [f"line {index}" for index in range(18)]
    assert (earlier["previous_before"], earlier["complete"]) == (None, False)
    later = await logs(gateway, run, after=page["next_after"], limit=1)
    assert texts(later) == ["line 23"]
    first = await logs(gateway, run, around=ids[0], limit=5)
    assert (texts(first)[0], first["previous_before"]) == ("line 0", None)
    found = await logs(gateway, run, before=ids[30], search="5", limit=2)
    assert texts(found) == ["line 15", "line 25"]


async def test_a_place_behind_the_last_line_can_be_continued_from(
    gateway: RunningGateway, run: PrintingRun
) -> None:
    await run.prints("a", "b")
    [last] = (await logs(gateway, run, tail=1))["lines"]
    sequence = int(last["id"].partition("-")[0])
    for missing in (f"{sequence + 1}-0", "999999999999999999-0"):
        page = await logs(gateway, run, around=missing)
        assert (texts(page), page["next_after"]) == (["a", "b"], last["id"])
    await run.prints("c")
    assert texts(await logs(gateway, run, after=page["next_after"])) == ["c"]


@pytest.mark.parametrize("query", [{"after": "1-0"}, {"tail": 2}, {"follow": "1"}, {"around": "2-0"}])
async def test_one_place_of_the_log_is_read_at_a_time(
    gateway: RunningGateway, run: PrintingRun, query: dict[str, Any]
) -> None:
    refused = await gateway.http.get(f"/runs/{run.run_id}/logs", params={"before": "1-0", **query})
    assert refused.status_code == 422
    assert "only one of" in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize("field", ["before", "around"])
async def test_the_id_of_a_line_is_checked(gateway: RunningGateway, run: PrintingRun, field: str) -> None:
    refused = await gateway.http.get(f"/runs/{run.run_id}/logs", params={field: "12"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == field


async def test_pages_continue_after_the_given_line(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("a", "b", "c")
    await run.prints("d")
    first = await logs(gateway, run, limit=2)
    assert texts(first) == ["a", "b"]
    second = await logs(gateway, run, limit=2, after=first["next_after"])
    assert texts(second) == ["c", "d"]
    nothing = await logs(gateway, run, after=second["next_after"])
    assert (nothing["lines"], nothing["next_after"]) == ([], second["next_after"])
    await run.prints("e")
    assert texts(await logs(gateway, run, after=nothing["next_after"])) == ["e"]


async def test_a_log_is_complete_after_the_end_of_the_run(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("a", "b")
    await run.prints("c")
    assert not (await logs(gateway, run))["complete"]
    await run.ends(RunStatus.FAILED)
    assert (await logs(gateway, run))["complete"]
    assert (await logs(gateway, run, limit=3))["complete"]
    assert not (await logs(gateway, run, limit=2))["complete"]
    assert not (await logs(gateway, run, limit=1))["complete"]


async def test_filters_select_lines_by_task_stream_and_text(
    gateway: RunningGateway, run: PrintingRun
) -> None:
    await run.prints("Alpha", "beta", task="load")
    await run.prints("alpha again", task="save", stream="stderr")
    await run.prints("2 lines were dropped", task=None, stream="note")
    assert texts(await logs(gateway, run, task="save")) == ["alpha again"]
    assert len(texts(await logs(gateway, run, task=["save", "load"]))) == 3
    assert len(texts(await logs(gateway, run, stream=["stderr", "note"]))) == 2
    assert texts(await logs(gateway, run, search="ALPHA")) == ["Alpha", "alpha again"]
    assert texts(await logs(gateway, run, search="alpha", stream="stdout", task="load")) == ["Alpha"]
    await run.ends()
    page = await logs(gateway, run, task="none")
    assert (page["lines"], page["complete"]) == ([], True)


async def test_lines_of_other_runs_are_not_included(gateway: RunningGateway, run: PrintingRun) -> None:
    other = await begun(gateway.inside.connection)
    for number in range(3):
        await run.prints(f"mine {number}")
        await other.prints(f"other {number}")
    assert texts(await logs(gateway, run, limit=2)) == ["mine 0", "mine 1"]
    assert texts(await logs(gateway, other)) == ["other 0", "other 1", "other 2"]


async def test_foreign_messages_in_the_stream_are_skipped(
    gateway: RunningGateway, run: PrintingRun, caplog: pytest.LogCaptureFixture
) -> None:
    await run.prints("before")
    await gateway.inside.connection.request(f"pyoco.logs.{run.run_id}", b"\xff no lines")
    await run.prints("after")
    assert texts(await logs(gateway, run)) == ["before", "after"]
    assert "A stored record cannot be read: log " in caplog.text


@pytest.mark.parametrize(
    ("query", "field", "value", "expected"),
    [
        ({"stream": "stdin"}, "stream", "'stdin'", "one of stdout, stderr, note"),
        ({"after": "12"}, "after", "'12'", "the id of a line, such as 12-0"),
        ({"limit": "0"}, "limit", "'0'", "a whole number from 1 to 5000"),
        ({"limit": "5001"}, "limit", "'5001'", "a whole number from 1 to 5000"),
        ({"limit": "many"}, "limit", "'many'", "a whole number from 1 to 5000"),
        ({"search": "x" * 201}, "search", "'xxx", "at most 200 characters"),
        ({"follow": "maybe"}, "follow", "'maybe'", "true or false"),
    ],
    ids=str,
)
async def test_an_invalid_log_query_is_refused_with_a_hint(
    gateway: RunningGateway, run: PrintingRun, query: dict[str, str], field: str, value: str, expected: str
) -> None:
    response = await gateway.http.get(f"/runs/{run.run_id}/logs", params=query)
    problem = response.json()
    assert (response.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    (error,) = problem["errors"]
    assert error["field"] == field
    assert error["value"].startswith(value)
    assert expected in error["message"]


@pytest.mark.parametrize("run_id", [NO_RUN, "x", "a.b", "*"])
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
async def test_the_log_of_an_unknown_run_is_a_404(gateway: RunningGateway, run_id: str, accept: str) -> None:
    response = await gateway.http.get(f"/runs/{run_id}/logs", headers={"Accept": accept})
    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")


async def test_without_nats_it_is_a_503(config: NatsBackendConfig, own_nats: NatsServer) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        own_nats.stop()
        for accept in ("*/*", "text/event-stream"):
            response = await gateway.http.get(f"/runs/{NO_RUN}/logs", headers={"Accept": accept})
            assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")


class TestPyocosOwnClient:
    """`pyoco runs logs` reads `logs` and `run_status`, and knows no pages."""

    async def test_entries_have_its_form(self, gateway: RunningGateway, run: PrintingRun) -> None:
        await run.prints("one", "two")
        await run.prints("lost", task=None, stream="note")
        page = await logs(gateway, run)
        assert page["run_status"] == "PENDING"
        assert [(each["task"], each["stream"], each["text"]) for each in page["logs"]] == [
            ("load", "stdout", "one"),
            ("load", "stdout", "two"),
            ("run", "note", "lost"),
        ]
        assert sorted({each["seq"] for each in page["logs"]}) == [each["seq"] for each in page["logs"]]
        for query in ({"limit": 5}, {"stream": "stdout"}, {"search": "o"}, {"after": page["next_after"]}):
            assert "logs" not in await logs(gateway, run, **query)

    async def test_they_are_more_than_one_page(
        self, gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_log_routes, "_PAGE_LINES", 2)
        monkeypatch.setattr(run_log_routes, "LOG_LIMIT_MAX", 4)
        await run.prints("a", "b", "c", "d")
        page = await logs(gateway, run)
        assert texts(page) == ["a", "b"]
        await run.prints("e")
        shown = [each["text"] for each in (await logs(gateway, run))["logs"]]
        assert shown[:-1] == ["a", "b", "c", "d"]
        assert "pyoco-client logs" in shown[-1]

    async def test_the_last_lines(self, gateway: RunningGateway, run: PrintingRun) -> None:
        await run.prints("a", "b", "c")
        await run.prints("d")
        page = await logs(gateway, run, tail=2)
        assert texts(page) == [each["text"] for each in page["logs"]] == ["c", "d"]
        for query in ({"limit": 1}, {"after": "1-0"}, {"follow": "1"}):
            refused = await gateway.http.get(f"/runs/{run.run_id}/logs", params={"tail": 2, **query})
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["field"] == "tail"

    @pytest.mark.parametrize("options", [[], ["--task", "load"], ["--tail", "2"], ["--follow"]])
    async def test_its_command_shows_the_log(
        self, gateway: RunningGateway, run: PrintingRun, options: list[str]
    ) -> None:
        await run.prints("one", "two")
        await run.ends()
        command = [
            sys.executable,
            "-m",
            "pyoco",
            "runs",
            "logs",
            run.run_id,
            "--server",
            str(gateway.http.base_url),
        ]
        process = await create_subprocess_exec(*command, *options, stdout=PIPE)
        printed, _ = await process.communicate()
        assert printed.decode().splitlines() == ["[load][stdout] one", "[load][stdout] two"]
