"""Checking an answer against its schema without ever holding up the gateway.

A schema is whatever somebody's flow says: its patterns may backtrack for ever, its references may multiply.
So one that could be slow is tried in a process of its own, which is ended when it takes too long.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Any, Final

import msgspec

from pyoco_server.errors import FieldProblem, InvalidAnswer
from pyoco_server.human.schema_child import Check, Found, checked, decode_found

log = logging.getLogger(__name__)

_LIMIT_SEC: Final = 2.0
# Starting the process is not the schema's fault.
_START_SEC: Final = 10.0
# A check of so little without any of these words takes less than a millisecond or two.
_QUICK_BYTES: Final = 16 * 1024
_SLOW_WORDS: Final = (
    b'"pattern',
    b'"$ref"',
    b'"$dynamicRef"',
    b'"uniqueItems"',
    b'"unevaluated',
    b'"propertyNames"',
    b'"format"',
)
_READY: Final = msgspec.json.encode(Check(None, True, "")) + b"\n"
_MAX_LINE: Final = 64 * 1024 * 1024


class SchemaChecker:
    """Has its process from the first slow schema to `close`."""

    def __init__(self, *, limit_sec: float = _LIMIT_SEC) -> None:
        self._limit_sec = limit_sec
        self._process: Process | None = None
        # Whether the process has answered what it was asked.
        self._answered = True
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def check(self, value: Any, schema: dict[str, Any] | bool, *, at: str) -> None:
        """InvalidAnswer says what is wrong with the value, or that the schema is of no use."""
        wanted = Check(value, schema, at)
        line = msgspec.json.encode(wanted) + b"\n"
        is_slow = len(line) > _QUICK_BYTES or any(word in line for word in _SLOW_WORDS)
        found = await self._ask(line) if is_slow else checked(wanted)
        if found.schema is not None:
            detail = f"no answer can be checked against the schema of this wait: {found.schema}"
            raise InvalidAnswer(problems=[FieldProblem("", detail)])
        if found.problems:
            raise InvalidAnswer(problems=found.problems)

    async def _ask(self, line: bytes) -> Found:
        async with self._turn:
            try:
                process = await self._started()
                return await self._exchange(process, line, self._limit_sec)
            except TimeoutError:
                text = f"its schema takes longer than {self._limit_sec:g} s to check: mend its patterns"
                return Found(schema=text)
            except (OSError, EOFError) as error:
                # Out of memory, perhaps: the same answer as for one that takes too long.
                log.warning("the process that checks answers has ended: %r", error)
                return Found(schema="the process that checks it has ended: simplify the schema or the answer")
            finally:
                # Cancelled or too late, its answer would be the next one's.
                if self._process is not None and not self._answered:
                    await self._end()

    async def _started(self) -> Process:
        self._answered = False
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "pyoco_server.human.schema_child",
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_MAX_LINE,
            )
            await self._exchange(self._process, _READY, _START_SEC)
        return self._process

    async def _exchange(self, process: Process, line: bytes, limit_sec: float) -> Found:
        assert process.stdin is not None
        assert process.stdout is not None
        self._answered = False
        async with asyncio.timeout(limit_sec):
            process.stdin.write(line)
            await process.stdin.drain()
            answer = await process.stdout.readline()
        if not answer:
            raise EOFError("no answer")
        self._answered = True
        return decode_found(answer)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
