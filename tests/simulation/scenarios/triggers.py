"""Deliveries to a hook and workflow events, each of them repeated by its sender until it is answered."""

from tests.simulation.executor import Flow, Task, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {"job": chain(Task("a", sec=0.3), Task("b", sec=0.3))}


async def play(world: World, users: Users) -> None:
    secret = await users.create_hook(world.any_gateway(), "hook", "job")
    template = await users.create_template(world.any_gateway(), "orders", "job")
    for number in range(2):
        if secret is not None:
            await _until_answered(world, lambda: users.deliver(world.any_gateway(), "hook", secret, f"d{number}"))
        if template is not None:
            await _until_answered(world, lambda: users.workflow_event(world.any_gateway(), template, f"e{number}"))
