"""A worker crashes soon after its start, perhaps with its first runs: they continue long before AckWait.

The gateways may stand still meanwhile, for less time than a worker waits until one has seen it.
"""

from typing import Final

from tests.simulation.executor import Step
from tests.simulation.invariants.checks import InvariantBroken
from tests.simulation.users import Users
from tests.simulation.world import Shape

# Longer than users wait for the end of a run.
_ACK_WAIT_SEC: Final = 30.0

SHAPE = Shape(
    flows={"short": [Step("a", 0.2), Step("b", 0.2)]},
    settings={"consumer_ack_wait_sec": _ACK_WAIT_SEC},
    faults=0,
)


async def play(users: Users) -> None:
    world = users.world
    first, second = world.workers
    for worker in (first, second):
        worker.crash()
    submitted = [await users.submit(users.any_gateway(), "short") for _ in range(1 + users.draw(2))]
    if users.draw(2):
        for gateway in world.gateways:
            world.pause(gateway, 0.5)
    first.start()
    await users.pause(1.0)
    first.crash()
    second.start()
    for run_id in submitted:
        if run_id is not None and not await users.ended(run_id):
            raise InvariantBroken(f"run {run_id} waits for AckWait: its worker has crashed")
