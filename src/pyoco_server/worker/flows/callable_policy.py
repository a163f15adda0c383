"""Which modules `callable:` of a flow.yaml may name.

Checked before a module is imported, and again for the object found in it: `callable: mytasks:run` is
`subprocess.run` if mytasks imported that.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.errors import ConfigError, FieldProblem, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.worker.flows.installed_modules import is_standard_library, modules_of_dependencies

SETTING: Final = "PYOCO_CALLABLE_ALLOW"

_OWN: Final = frozenset({"pyoco_server", "__main__", "__mp_main__"})

# In most virtual environments, although nothing requires them. From Python 3.12 on, distutils is setuptools'.
_INSTALLERS: Final = frozenset(
    {"_distutils_hack", "distutils", "pip", "pkg_resources", "setuptools", "wheel"}
)
_PATTERN: Final = re.compile(r"[\w.*?\[\]!-]+")


class FlowBuildError(PyocoError):
    """A flow.yaml is valid, but this worker cannot build a flow from it."""

    error = Err.EXECUTION_FAILED

    def __init__(
        self,
        detail: str = "",
        *,
        problems: Sequence[FieldProblem] = (),
        task: str | None = None,
        module: str | None = None,
    ) -> None:
        super().__init__(detail, problems=problems)
        self.task = task
        self.module = module


class CallableRefused(FlowBuildError):
    """`callable:` names something that this worker's policy does not allow."""


@dataclass(frozen=True, slots=True)
class CallablePolicy:
    """Without patterns everything is allowed except the standard library, the server and its dependencies.

    Those need a pattern that names their top-level package: `*` does not allow them.
    """

    patterns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> CallablePolicy:
        """Comma-separated patterns of module paths."""
        patterns = tuple(stripped for part in text.split(",") if (stripped := part.strip()))
        for pattern in patterns:
            if _PATTERN.fullmatch(pattern) is None:
                raise ConfigError(
                    f"{SETTING}: {pattern!r} is not a pattern of module paths such as 'myflows.*' "
                    "or 'shared.tasks' (a module, without ':function')"
                )
        return cls(patterns)

    def check(self, callable_path: str) -> None:
        """Raise CallableRefused unless the module before the colon may be imported."""
        module = callable_path.partition(":")[0]
        if refusal := self._refusal(module):
            raise CallableRefused(f"{callable_path!r} is refused: {refusal}", module=module)

    def check_origin(self, callable_path: str, found: object) -> None:
        """Raise CallableRefused unless the object that was found may be called."""
        module = _origin(found)
        if refusal := self._refusal(module):
            message = f"{callable_path!r} is refused: it comes from {module!r}, and {refusal}"
            raise CallableRefused(message, module=module)

    def _refusal(self, module: str) -> str | None:
        top = module.partition(".")[0]
        matching = [pattern for pattern in self.patterns if fnmatchcase(module, pattern)]
        if any(pattern.partition(".")[0] == top for pattern in matching):
            return None
        if reason := _reserved(top):
            return f"{top!r} is {reason}; {self._remedy(module)}"
        if self.patterns and not matching:
            return (
                f"{module!r} matches none of the patterns {', '.join(self.patterns)}; {self._remedy(module)}"
            )
        return None

    def _remedy(self, module: str) -> str:
        patterns = self.patterns or ("*",)  # a first pattern excludes everything else
        return f"to allow it, set {SETTING}={','.join([*patterns, module])} on this worker"


def _reserved(top: str) -> str | None:
    """Why a top-level package needs an explicit pattern; None if it does not."""
    if top in _OWN:
        return "part of the server itself"
    if is_standard_library(top):
        return "part of Python's standard library"
    dependencies = modules_of_dependencies()
    if dependencies is None:
        return "perhaps installed with the server, which has no metadata here to tell (install it with pip)"
    return "installed with the server" if top in dependencies or top in _INSTALLERS else None


def task_function(found: object) -> Callable[..., Any] | None:
    """The function inside what pyoco's `@task` returns; None if the object is not callable."""
    while isinstance(found, TaskWrapper | Task):
        found = found.task if isinstance(found, TaskWrapper) else found.func
    return found if callable(found) else None


def _origin(found: object) -> str:
    while isinstance(found, functools.partial):
        found = found.func
    module = getattr(found, "__module__", None)
    # A bound method of a built-in type has no module of its own.
    return module if isinstance(module, str) else type(found).__module__
