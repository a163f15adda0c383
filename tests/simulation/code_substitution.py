"""Replaces lines of a function while a block lasts, and fails loudly when the function has changed.

The code object is exchanged, not the function: whoever has imported the function by name runs the other code
as well.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final

_DEFINITION: Final = re.compile(r"^(async )?def ", re.MULTILINE)


class SubstitutionOutdated(Exception):
    """The source of a function no longer contains what is to be replaced."""


@dataclass(frozen=True, slots=True)
class Substitution:
    # "package.module:Class.method" or "package.module:function".
    target: str
    # Text of its source without the indentation of the function; it occurs there exactly once.
    old: str
    new: str

    def changed_code(self) -> CodeType:
        """The code of the function with the text replaced."""
        function = self.function()
        source = textwrap.dedent(inspect.getsource(function))
        if (found := source.count(self.old)) != 1:
            raise SubstitutionOutdated(f"{self.target} contains this {found} times, not once:\n{self.old}")
        start = _DEFINITION.search(source)
        assert start is not None
        # Without decorators: only the code is used.
        body = source[start.start() :].replace(self.old, self.new)
        names: dict[str, Any] = dict(function.__globals__)
        exec(compile(body, f"<changed {self.target}>", "exec"), names)
        changed: FunctionType = names[function.__name__]
        if changed.__code__.co_freevars != function.__code__.co_freevars:
            raise SubstitutionOutdated(f"{self.target} uses names of an outer function or super()")
        return changed.__code__

    def function(self) -> FunctionType:
        module_name, _, path = self.target.partition(":")
        found: Any = import_module(module_name)
        for name in path.split("."):
            found = inspect.getattr_static(found, name, None)
            if found is None:
                raise SubstitutionOutdated(f"there is no {self.target}")
        if isinstance(found, property):
            found = found.fget
        found = getattr(found, "__func__", found)
        assert isinstance(found, FunctionType), self.target
        return found


@contextmanager
def substituted(*substitutions: Substitution) -> Iterator[None]:
    """All of them inside the block; one per function."""
    changed = [(each.function(), each.changed_code()) for each in substitutions]
    with ExitStack() as restored:
        for function, code in changed:
            restored.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield
