"""The history of runs: all of them have ended only when that was read, however far behind its reader is."""

import asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.faults.chaos.history import History
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import written
from tests.support.waiting import LIMIT_SEC


async def test_a_run_that_was_not_read_yet_is_waited_for(config: NatsBackendConfig) -> None:
    async with connected(config) as connection:
        run = await written(connection, params={"number": 1})
        history = History(connection)
        assert not await history.until_all_ended(within=0.1), "nobody has read anything"

        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(history.follow())
            all_ended = tasks.create_task(history.until_all_ended(within=LIMIT_SEC))
            assert await history.until(lambda: history.open, within=LIMIT_SEC)
            assert not all_ended.done()
            await run.becomes(RunStatus.COMPLETED)
            assert await all_ended
            following.cancel()
        assert not history.open
