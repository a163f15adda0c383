"""Bulk operations on runs and dead letters, also twice under one key."""

from typing import Final

from pyoco_server.records.runs.bulk_models import BulkAction
from tests.simulation.executor import Step
from tests.simulation.faults import USUAL
from tests.simulation.network import MessageFault
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"bulk"}),
    flows={"slow": [Step("a", 1.0), Step("b", 2.0)], "fails": [Step("a", fails=frozenset(range(1, 20)))]},
    settings={"dlq_publish_execution_error": True},
    fault_gap=200,
    mix={**USUAL, MessageFault.LOSE_REPLY: 12},
)
_ACTIONS: Final = tuple(BulkAction)


async def play(users: Users) -> None:
    users.aim_faults_at("bulk")
    for flow in ("slow", "fails", "slow"):
        await users.submit(users.any_gateway(), flow)
        await users.pause(0.5)
    for number in range(3):
        action = _ACTIONS[users.draw(len(_ACTIONS))]
        key = f"bulk-{number}" if not users.draw(3) else None
        for _ in range(2 if key else 1):
            await users.bulk(users.any_gateway(), action, key=key)
            await users.pause(0.5)
