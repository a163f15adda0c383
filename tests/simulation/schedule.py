"""One schedule: a scenario played in a world of one seed, then the invariants."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

from pyoco_server.errors import PyocoError
from tests.simulation import scenarios
from tests.simulation.choices import Decisions
from tests.simulation.invariants.checks import InvariantBroken, check, check_loop_errors
from tests.simulation.invariants.recording import Recorder
from tests.simulation.users import Users
from tests.simulation.world import Shape, World

# Everything settles within this time, whatever has failed; most schedules long before.
_SETTLE_SEC: Final = 60.0
# After this time gateways have looked once whether something is left to do.
_FIRST_LOOK_SEC: Final = 1.2


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    shape: Shape
    play: Callable[[Users], Awaitable[None]]


def _scenario(module: ModuleType) -> Scenario:
    return Scenario(module.__name__.rpartition(".")[2], module.SHAPE, module.play)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    found.name: _scenario(import_module(f"{scenarios.__name__}.{found.name}"))
    for found in iter_modules(scenarios.__path__)
}


@dataclass(frozen=True, slots=True)
class Result:
    scenario: str
    seed: int
    # The invariant that does not hold, or None.
    failure: str | None
    story: str
    decisions: Decisions


def run_schedule(scenario: Scenario, seed: int, *, given: Decisions | None = None) -> Result:
    failure = None
    with World(seed, scenario.shape, given=given) as world:
        users, recorder = Users(world), Recorder(world)

        async def play(_: World) -> None:
            await world.all_started()
            world.faults.start()
            await scenario.play(users)
            await world.heal()
            await _settle(world, recorder, users)

        try:
            world.run(play)
            check_loop_errors(world.loop.errors)
        except InvariantBroken as broken:
            failure = str(broken)
        return Result(scenario.name, seed, failure, world.story.text, world.choices.made)


async def _settle(world: World, recorder: Recorder, users: Users) -> None:
    """Wait until all invariants hold; InvariantBroken if one does not in the end."""
    until = world.now + _SETTLE_SEC
    pause_sec = max(_FIRST_LOOK_SEC, world.network.late_until - world.now)
    while True:
        await world.sleep(pause_sec)
        try:
            return check(await recorder.evidence(users))
        except (InvariantBroken, PyocoError):
            if world.now > until:
                raise
        pause_sec *= 1.5
