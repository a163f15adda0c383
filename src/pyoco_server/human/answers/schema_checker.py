"""Checking an answer against its schema without ever holding up the gateway, or the answers of others.

A schema is whatever somebody's flow says: its patterns may backtrack for ever, its parts may multiply with
those of the answer. So one that could be slow is tried in a process of its own, which is ended when it takes
too long. There are a few of them, and of each owner one check at a time: whoever has slow schemas waits for
these alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from pyoco_server.errors import AnswersBusy, FieldProblem, InvalidAnswer
from pyoco_server.human.answers.schema_child import Check, Found, checked
from pyoco_server.human.answers.schema_process import SchemaProcess

LIMIT_SEC: Final = 2.0
_PROCESSES: Final = 3
# How many checks of one owner, and of all, may be under way or wait for their turn.
_MOST_OF_ONE: Final = 10
_MOST_OF_ALL: Final = 100
# A check of so little takes some milliseconds: in bytes of all of it, in parts of the schema, and in these
# times the parts of the answer.
_QUICK_BYTES: Final = 4 * 1024
_QUICK_SCHEMA: Final = 50
_QUICK_PAIRS: Final = 500
# By these a part of the answer is tried more than once, or for as long as it likes.
_SLOW_WORDS: Final = (
    b'"anyOf"',
    b'"oneOf"',
    b'"allOf"',
    b'"not"',
    b'"if"',
    b'"contains"',
    b'"dependentSchemas"',
    b'"pattern',
    b'"$ref"',
    b'"$dynamicRef"',
    b'"uniqueItems"',
    b'"unevaluated',
    b'"propertyNames"',
    b'"format"',
)


class SchemaChecker:
    """Has its processes from the first slow schemas to `close`."""

    def __init__(self, *, limit_sec: float = LIMIT_SEC, processes: int = _PROCESSES) -> None:
        self._processes = [SchemaProcess(limit_sec) for _ in range(processes)]
        # The one that was used last is taken first: most gateways need one only.
        self._free = list(self._processes)
        self._places = asyncio.Semaphore(processes)
        # How many checks each owner has here, and whose turn it is among these.
        self._under_way: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    async def close(self) -> None:
        for process in self._processes:
            await process.close()

    async def check(self, value: Any, schema: dict[str, Any] | bool, *, at: str, whose: str) -> None:
        """InvalidAnswer says what is wrong with the value, or that the schema is of no use."""
        wanted = Check(value, schema, at)
        line = msgspec.json.encode(wanted) + b"\n"
        found = checked(wanted) if _is_quick(wanted, line) else await self._ask(line, whose)
        if found.schema is not None:
            detail = f"no answer can be checked against the schema of this wait: {found.schema}"
            raise InvalidAnswer(problems=[FieldProblem("", detail)])
        if found.problems:
            raise InvalidAnswer(problems=found.problems)

    async def _ask(self, line: bytes, whose: str) -> Found:
        async with self._turn(whose), self._places:
            process = self._free.pop()
            try:
                return await process.ask(line)
            finally:
                self._free.append(process)

    @asynccontextmanager
    async def _turn(self, whose: str) -> AsyncIterator[None]:
        if self._under_way[whose] >= _MOST_OF_ONE or self._under_way.total() >= _MOST_OF_ALL:
            busy = AnswersBusy(
                "many answers with schemas that take long wait to be checked; the wait is open"
            )
            busy.headers["Retry-After"] = str(int(LIMIT_SEC))
            raise busy
        self._under_way[whose] += 1
        try:
            async with self._turns.setdefault(whose, asyncio.Lock()):
                yield
        finally:
            self._under_way[whose] -= 1
            if not self._under_way[whose]:
                del self._under_way[whose], self._turns[whose]


def _is_quick(wanted: Check, line: bytes) -> bool:
    if len(line) > _QUICK_BYTES or any(word in line for word in _SLOW_WORDS):
        return False
    schema_parts = _parts(wanted.schema)
    return schema_parts <= _QUICK_SCHEMA and schema_parts * _parts(wanted.value) <= _QUICK_PAIRS


def _parts(value: Any) -> int:
    """How many values there are in a JSON value, itself included."""
    count, rest = 0, [value]
    while rest:
        count += 1
        match rest.pop():
            case dict() as inner:
                rest += inner.values()
            case list() as inner:
                rest += inner
    return count
