"""Signals and events are sent before, while and after runs wait for them."""

from pyoco_server.records.models import WaitKind
from tests.simulation.executor import Flow, Task, Wait, chain
from tests.simulation.users import Users
from tests.simulation.world import World

FLOWS: dict[str, Flow] = {
    "signals": chain(
        Task("a"),
        Task("one", wait=Wait(kind=WaitKind.SIGNAL, topic="go", sec=60.0)),
        Task("two", wait=Wait(kind=WaitKind.SIGNAL, topic="go", sec=60.0)),
    ),
    "event": chain(Task("a", sec=1.0), Task("news", wait=Wait(kind=WaitKind.EVENT, topic="news", sec=60.0))),
}


async def play(world: World, users: Users) -> None:
    await world.gather(_signals(world, users), _events(world, users), _events(world, users))


async def _signals(world: World, users: Users) -> None:
    run_id = await users.submit(world.any_gateway(), "signals")
    if run_id is None:
        return
    for number in range(3):
        await world.sleep(world.draw(20) / 10)
        for _ in range(1 + world.draw(2)):
            await users.signal(world.any_gateway(), run_id, "go", number, key=f"signal-{number}")


async def _events(world: World, users: Users) -> None:
    await users.submit(world.any_gateway(), "event")
    await world.sleep(world.draw(30) / 10)
    await users.send_event(world.any_gateway(), "news", "data", event_id="event-1")
