"""Which wheels of the registry a worker installs."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from packaging.tags import Tag, sys_tags

from pyoco_server.wheels.wheel_registry import StoredWheel


@dataclass(frozen=True, slots=True)
class Environment:
    """What can be installed into one: by interpreter, ABI and platform, and by the version of Python."""

    tags: frozenset[Tag]
    python: str


@dataclass(frozen=True, slots=True)
class IncompatibleWheel:
    """A wheel that is for this worker by its tags, but not for its Python or its system."""

    wheel: StoredWheel
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    # One of each package.
    chosen: list[StoredWheel]
    incompatible: list[IncompatibleWheel]


@cache
def own_environment() -> Environment:
    # Without what marks a version that is not released, as pip compares it.
    return Environment(frozenset(sys_tags()), ".".join(str(number) for number in sys.version_info[:3]))


def select(wheels: Iterable[StoredWheel], worker_tags: Sequence[str], own: Environment) -> Selection:
    """The newest wheel of each package among those that are for this worker and fit its system."""
    chosen: dict[str, StoredWheel] = {}
    incompatible: list[IncompatibleWheel] = []
    for wheel in wheels:
        if wheel.tags and not set(wheel.tags) & set(worker_tags):
            continue
        if reason := _objection(wheel, own):
            incompatible.append(IncompatibleWheel(wheel, reason))
            continue
        package = wheel.name.package
        if package not in chosen or chosen[package].name.version < wheel.name.version:
            chosen[package] = wheel
    return Selection([chosen[package] for package in sorted(chosen)], incompatible)


def _objection(wheel: StoredWheel, own: Environment) -> str:
    """Why it cannot be installed here; empty when it can."""
    if not wheel.name.compatible_with & own.tags:
        _, _, tags = wheel.name.file_name.removesuffix(".whl").split("-", 2)
        return f"this worker cannot install {tags}"
    if not wheel.requires_python.contains(own.python, prereleases=True):
        return f"it is for Python {wheel.requires_python}, and this worker has {own.python}"
    return ""
