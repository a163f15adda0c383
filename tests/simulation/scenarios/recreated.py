"""An operator deletes the stream of dead letters, or that of jobs, and creates it again: it counts from 1."""

from pyoco_server.records.runs.bulk_models import BulkAction
from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"bulk"}),
    flows={"fails": [Step("a", fails=frozenset(range(1, 20)))], "chain": [Step("a", 0.5), Step("b", 0.5)]},
    settings={"consumer_max_deliver": 1, "worker_lost_after_sec": 0.0},
    mix={**USUAL, MessageFault.CRASH_AFTER: 12, MessageFault.PAUSE: 12},
)


async def play(users: Users) -> None:
    if users.draw(2):
        await _letters(users)
    else:
        await _jobs(users)


async def _letters(users: Users) -> None:
    """While a bulk operation deletes letters, others come under their sequences."""
    users.aim_faults_at("bulk")
    await users.together(*(_failed_run(users) for _ in range(2)))
    await users.bulk(users.any_gateway(), BulkAction.DELETE_LETTERS)
    users.recreate_stream(users.world.gateways[0].config.dlq_stream)
    await users.together(*(_failed_run(users) for _ in range(2)))


async def _failed_run(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "fails")
    if run_id is not None:
        await users.ended(run_id)


async def _jobs(users: Users) -> None:
    """While it is known of a job that its only delivery has failed, another one has its sequence."""
    users.aim_faults_at("submit")
    await users.submit(users.any_gateway(), "chain")
    # Until AckWait has passed.
    await users.world.sleep(5.0 + users.draw(20) / 10)
    users.recreate_stream(users.world.gateways[0].config.work_stream)
    await users.submit(users.any_gateway(), "chain")
    await users.pause(1.0)
