"""Which wheels of the registry a worker installs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from packaging.tags import Tag, sys_tags

from pyoco_server.wheels.registry import StoredWheel


@dataclass(frozen=True, slots=True)
class Selection:
    # One of each package.
    chosen: list[StoredWheel]
    # For this worker by their tags, but not for its Python or its system.
    incompatible: list[StoredWheel]


@cache
def own_tags() -> frozenset[Tag]:
    """What can be installed here: interpreter, ABI and platform."""
    return frozenset(sys_tags())


def select(wheels: Iterable[StoredWheel], worker_tags: Sequence[str], supported: frozenset[Tag]) -> Selection:
    """The newest wheel of each package among those that are for this worker and fit its system."""
    chosen: dict[str, StoredWheel] = {}
    incompatible: list[StoredWheel] = []
    for wheel in wheels:
        if wheel.tags and not set(wheel.tags) & set(worker_tags):
            continue
        if not wheel.name.compatible_with & supported:
            incompatible.append(wheel)
            continue
        package = wheel.name.package
        if package not in chosen or chosen[package].name.version < wheel.name.version:
            chosen[package] = wheel
    return Selection([chosen[package] for package in sorted(chosen)], incompatible)
