"""Signals and events are sent before, while and after runs wait for them."""

from pyoco_server.records.runs.run_models import WaitKind
from tests.simulation.executor import Await, Step
from tests.simulation.users import Users
from tests.simulation.world import Shape

SHAPE = Shape(
    services=frozenset({"waits", "signals"}),
    flows={
        "signals": [Step("a"), Await("one", "go"), Await("two", "go")],
        "event": [Step("a", 1.0), Await("news", "news", WaitKind.EVENT)],
    },
)


async def play(users: Users) -> None:
    await users.together(_signals(users), _events(users))


async def _signals(users: Users) -> None:
    run_id = await users.submit(users.any_gateway(), "signals")
    if run_id is None:
        return
    for number in range(3):
        await users.pause(1.0)
        for _ in range(1 + users.draw(2)):
            await users.signal(users.any_gateway(), run_id, "go", number, key=f"signal-{number}")


async def _events(users: Users) -> None:
    await users.submit(users.any_gateway(), "event")
    await users.pause(1.5)
    await users.send_event(users.any_gateway(), "news", "data", event_id="event-1")
