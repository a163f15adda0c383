"""Bulk operations on runs and dead letters, also twice under one key."""

from pyoco_server.records.operation_models import BulkAction
from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "slow": chain(Task("a", sec=2.0), Task("b", sec=4.0)),
    "fails": chain(Task("a", fails=True)),
}
SETTINGS = {"dlq_publish_execution_error": True}
_ACTIONS = (BulkAction.CANCEL, BulkAction.RERUN, BulkAction.REPLAY_LETTERS, BulkAction.DELETE_LETTERS)


async def play(world: World, users: Users) -> None:
    for flow in ("slow", "fails", "slow"):
        await users.submit(world.any_gateway(), flow)
    await world.sleep(1.0 + world.draw(30) / 10)
    if not world.draw(3):
        await _replay_one(world, users)
        return
    action = _ACTIONS[world.draw(len(_ACTIONS))]
    key = "bulk" if world.draw(2) else None
    for _ in range(2 if key else 1):
        await users.bulk(world.any_gateway(), action, key=key)
        await world.sleep(world.draw(10) / 10)


async def _replay_one(world: World, users: Users) -> None:
    for letter in (await users.letters(world.any_gateway()))[:1]:
        await users.replay(world.any_gateway(), letter)
