"""The asynchronous client against a real gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from pyoco_server.http_client import AsyncPyocoHttpClient, GatewayUnreachable, PyocoHttpError
from tests.support.running.gateway import RunningGateway
from tests.support.running.printing_runs import PrintingRun, begun

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared_gateway: RunningGateway) -> AsyncIterator[AsyncPyocoHttpClient]:
    async with AsyncPyocoHttpClient(str(shared_gateway.http.base_url)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def run(shared_gateway: RunningGateway) -> PrintingRun:
    return await begun(shared_gateway.inside.connection)


async def test_many_runs_are_waited_for_at_once(
    client: AsyncPyocoHttpClient, shared_gateway: RunningGateway
) -> None:
    runs = [await begun(shared_gateway.inside.connection) for _ in range(5)]
    waits = [asyncio.create_task(client.wait(run.run_id, 20)) for run in runs]
    for run in runs:
        await run.ends()
    assert [run["status"] for run in await asyncio.gather(*waits)] == ["COMPLETED"] * 5


async def test_lines_and_snapshots_come_side_by_side(client: AsyncPyocoHttpClient, run: PrintingRun) -> None:
    async def texts() -> list[str]:
        return [line["text"] async for line in client.follow_logs(run.run_id)]

    async def statuses() -> list[str]:
        return [each["status"] async for each in client.watch_run(run.run_id)]

    lines, states = asyncio.create_task(texts()), asyncio.create_task(statuses())
    await run.prints("a", "b")
    await run.ends()
    assert await lines == ["a", "b"]
    assert (await states)[-1] == "COMPLETED"
    assert [line["text"] async for line in client.iter_logs(run.run_id)] == ["a", "b"]


async def test_lists_have_pages(client: AsyncPyocoHttpClient) -> None:
    ids = [(await client.submit_run("listed", tag="nobody"))["run_id"] for _ in range(3)]
    runs = client.iter_runs(2, flow="listed", sort="submitted_at", order="asc")
    assert [each["run_id"] async for each in runs] == ids
    assert [each["run_id"] for each in await client.list_runs(limit=3, flow="listed")] == ids[::-1]


async def test_a_watch_can_be_closed_early(client: AsyncPyocoHttpClient, run: PrintingRun) -> None:
    async with aclosing(client.watch_run(run.run_id)) as runs:
        assert (await anext(runs))["status"] == "PENDING"
    async with aclosing(client.follow(run.run_id)) as runs:
        assert (await anext(runs))["run_id"] == run.run_id
    assert (await client.health())["status"] == "ok"


async def test_a_wait_can_be_cancelled(client: AsyncPyocoHttpClient, run: PrintingRun) -> None:
    waiting = asyncio.create_task(client.wait(run.run_id))
    async with aclosing(client.watch_run(run.run_id)) as runs:
        await anext(runs)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_errors_are_the_same(client: AsyncPyocoHttpClient) -> None:
    with pytest.raises(PyocoHttpError) as refused:
        await client.get_run(NO_RUN)
    assert (refused.value.status, refused.value.err_id) == (404, "ERR-PYOCO-0005")
    with pytest.raises(PyocoHttpError):
        async for _ in client.follow_logs(NO_RUN):
            pass
    async with AsyncPyocoHttpClient("http://127.0.0.1:1", retries=0) as unreachable:
        with pytest.raises(GatewayUnreachable):
            await unreachable.health()
