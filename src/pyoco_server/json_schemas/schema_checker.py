"""Checks values against JSON Schemas without blocking the gateway, or the checks of other tenants.

A schema comes from a flow: its patterns may backtrack without end, and its references may multiply the work.
A check that could be slow runs in a process, which is killed when it takes too long. There are a few of them,
and each owner has one check at a time.

No library bounds this in-process: a linear regex engine helps against patterns, but 30 levels of
`allOf: [{$ref: next}, {$ref: next}]` are 2^30 checks.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.errors import AnswersBusy, FieldProblem, InvalidAnswer
from pyoco_server.json_schemas.schema_check_messages import Schema, SchemaCheck, SchemaCheckResult

log = logging.getLogger(__name__)

LIMIT_SEC: Final = 2.0
_PROCESSES: Final = 3
# Checks that run or are queued.
_MAX_CHECKS_OF_OWNER: Final = 10
_MAX_CHECKS: Final = 100

# A check within these limits takes some milliseconds.
_QUICK_BYTES: Final = 4 * 1024
_QUICK_SCHEMA_PARTS: Final = 50
# The parts of the schema times those of the answer.
_QUICK_PAIRS: Final = 500
# These check a part of the answer more than once, or for an unbounded time.
_SLOW_KEYWORDS: Final = (
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

_START_SEC: Final = 10.0
_EMPTY_CHECK: Final = msgspec.json.encode(SchemaCheck(None, True)) + b"\n"
_MAX_LINE: Final = 64 * 1024 * 1024
_decode_result = msgspec.json.Decoder(SchemaCheckResult).decode


class SchemaChecker:
    """Starts its processes when they are first needed."""

    def __init__(self, *, limit_sec: float = LIMIT_SEC) -> None:
        self._processes = [_CheckProcess(limit_sec) for _ in range(_PROCESSES)]
        # The last used one is taken first: most gateways need only one.
        self._free = list(self._processes)
        self._slots = asyncio.Semaphore(_PROCESSES)
        self._checks_of: Counter[str] = Counter()
        self._owner_locks: dict[str, asyncio.Lock] = {}

    async def close(self) -> None:
        for process in self._processes:
            await process.close()

    async def check(self, value: Any, schema: Schema, *, at: str, owner: str) -> None:
        """Check the answer to a wait: InvalidAnswer says what is wrong, or that the schema cannot be used."""
        result = await self.result(value, schema, owner=owner)
        if result.schema_error is not None:
            detail = f"no answer can be checked against the schema of this wait: {result.schema_error}"
            raise InvalidAnswer(problems=[FieldProblem("", detail)])
        if result.problems:
            raise InvalidAnswer(problems=[problem.dotted(at) for problem in result.problems])

    async def result(self, value: Any, schema: Schema, *, owner: str) -> SchemaCheckResult:
        """AnswersBusy if too many slow checks are queued."""
        check = SchemaCheck(value, schema)
        line = msgspec.json.encode(check) + b"\n"
        if not _is_quick(check, line):
            return await self._check_in_process(line, owner)
        from pyoco_server.json_schemas.schema_validation import run_check  # noqa: PLC0415 - takes 6 MB

        return run_check(check)

    async def _check_in_process(self, line: bytes, owner: str) -> SchemaCheckResult:
        async with self._turn_of(owner), self._slots:
            process = self._free.pop()
            try:
                return await process.check(line)
            finally:
                self._free.append(process)

    @asynccontextmanager
    async def _turn_of(self, owner: str) -> AsyncIterator[None]:
        if self._checks_of[owner] >= _MAX_CHECKS_OF_OWNER or self._checks_of.total() >= _MAX_CHECKS:
            busy = AnswersBusy("many answers with slow schemas are queued to be checked; the wait is open")
            busy.retry_after_sec = LIMIT_SEC
            raise busy
        self._checks_of[owner] += 1
        try:
            async with self._owner_locks.setdefault(owner, asyncio.Lock()):
                yield
        finally:
            self._checks_of[owner] -= 1
            if not self._checks_of[owner]:
                del self._checks_of[owner], self._owner_locks[owner]


class _CheckProcess:
    """One process, replaced by a new one after it was killed."""

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._process: Process | None = None
        self._result_pending = False
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        async with self._lock:
            await self._kill()

    async def check(self, line: bytes) -> SchemaCheckResult:
        async with self._lock:
            try:
                return await self._check_twice(line)
            except TimeoutError:
                text = f"its schema takes longer than {self._limit_sec:g} s to check: simplify it"
                return SchemaCheckResult(schema_error=text)
            except (OSError, EOFError) as error:
                # Possibly out of memory.
                log.warning("a process that checks answers has ended: %r", error)
                text = "the process that checks it has ended: simplify the schema or the answer"
                return SchemaCheckResult(schema_error=text)
            finally:
                # After a timeout or a cancel, the next check would read this one's result.
                if self._process is not None and self._result_pending:
                    await self._kill()

    async def _check_twice(self, line: bytes) -> SchemaCheckResult:
        was_running = self._process is not None
        try:
            return await self._exchange(await self._started(), line, self._limit_sec)
        except (OSError, EOFError):
            if not was_running:
                raise
            # The process may have ended before this check.
            await self._kill()
            return await self._exchange(await self._started(), line, self._limit_sec)

    async def _started(self) -> Process:
        self._result_pending = True
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pyoco_server.json_schemas.schema_validation"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_MAX_LINE,
                env=environment_without_secrets(),
            )
            # The time to start does not count against the schema.
            await self._exchange(self._process, _EMPTY_CHECK, _START_SEC)
        return self._process

    async def _exchange(self, process: Process, line: bytes, limit_sec: float) -> SchemaCheckResult:
        assert process.stdin is not None
        assert process.stdout is not None
        self._result_pending = True
        if process.stdin.is_closing():
            raise BrokenPipeError("the process has ended")
        async with asyncio.timeout(limit_sec):
            process.stdin.write(line)
            await process.stdin.drain()
            result = await process.stdout.readline()
        if not result:
            raise EOFError("no result")
        self._result_pending = False
        return _decode_result(result)

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _is_quick(check: SchemaCheck, line: bytes) -> bool:
    if len(line) > _QUICK_BYTES or any(word in line for word in _SLOW_KEYWORDS):
        return False
    schema_parts = _parts(check.schema)
    return schema_parts <= _QUICK_SCHEMA_PARTS and schema_parts * _parts(check.value) <= _QUICK_PAIRS


def _parts(value: Any) -> int:
    """The number of values in a JSON value, itself included."""
    count, rest = 0, [value]
    while rest:
        count += 1
        match rest.pop():
            case dict() as inner:
                rest += inner.values()
            case list() as inner:
                rest += inner
    return count
