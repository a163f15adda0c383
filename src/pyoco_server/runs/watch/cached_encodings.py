"""What many are told is put into its form once: the first who needs it pays, the others share it."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class MadeOnce:
    """Keeps what functions have made of it, for as long as it lives itself."""

    __slots__ = ("_made",)
    _made: dict[Callable[[Any], Any], Any]

    def once(self, make: Callable[[Any], T]) -> T:
        """What `make` makes of this object."""
        try:
            made = self._made
        except AttributeError:
            made = {}
            # The object may be frozen; what is made of it does not change it.
            object.__setattr__(self, "_made", made)
        if make not in made:
            made[make] = make(self)
        answer: T = made[make]
        return answer
