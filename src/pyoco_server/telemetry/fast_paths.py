"""Which dependencies are used through private names (fast path), and which through their public API.

The adapter of a dependency compares the installed version with what it relies on, and reports the result
here; `GET /metrics` shows it as `pyoco_dependency_fast_path`.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

log = logging.getLogger(__name__)

_in_use: dict[str, bool] = {}


def report_fast_path(dependency: str, mismatch: str | None) -> bool:
    """Return whether the fast path is used; a `mismatch` is logged once per process and dependency."""
    usable = mismatch is None
    if not usable and _in_use.get(dependency) is not False:
        log.warning("%s differs from what the fast path needs (%s): using its API", dependency, mismatch)
    _in_use[dependency] = usable
    return usable


def fast_paths() -> Mapping[str, bool]:
    """By the dependency's name, in the order of their first report."""
    return MappingProxyType(_in_use)
