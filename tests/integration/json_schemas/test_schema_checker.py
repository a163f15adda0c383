"""Slow and hostile schemas do not block the gateway."""

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pyoco_server.errors import AnswersBusy, InvalidAnswer
from pyoco_server.json_schemas import schema_checker
from pyoco_server.json_schemas.schema_check_messages import SchemaCheckResult
from pyoco_server.json_schemas.schema_checker import SchemaChecker
from tests.support.processes import is_alive
from tests.support.waiting import eventually

ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
SLOW_VALUE = "a" * 40 + "!"


@asynccontextmanager
async def having_checker(limit_sec: float) -> AsyncIterator[SchemaChecker]:
    checker = SchemaChecker(limit_sec=limit_sec)
    try:
        yield checker
    finally:
        await checker.close()


@pytest.fixture
async def checker() -> AsyncIterator[SchemaChecker]:
    async with having_checker(0.5) as checker:
        yield checker


@pytest.fixture
async def patient() -> AsyncIterator[SchemaChecker]:
    """With a limit that a busy machine does not exceed."""
    async with having_checker(10) as checker:
        yield checker


async def refusal(
    checker: SchemaChecker, value: Any, schema: dict[str, Any] | bool, owner: str = "ann"
) -> str:
    with pytest.raises(InvalidAnswer) as refused:
        await checker.check(value, schema, at="payload", owner=owner)
    return str(refused.value)


def running(checker: SchemaChecker) -> list[Process]:
    return [each._process for each in checker._processes if each._process is not None]


def pids(checker: SchemaChecker) -> list[int]:
    """Of the processes that it has."""
    return [process.pid for process in running(checker)]


@dataclass
class LoopTurns:
    """How often the loop came round, and how long its own thread has worked between two turns at most."""

    count: int = 0
    longest_sec: float = 0.0

    async def keep_counting(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.01)
            self.count += 1
            self.longest_sec, last = max(self.longest_sec, time.thread_time() - last), time.thread_time()


@asynccontextmanager
async def loop_goes_on() -> AsyncIterator[None]:
    turns = LoopTurns()
    counting = asyncio.create_task(turns.keep_counting())
    yield
    counting.cancel()
    # A loop that waits for the answer and does nothing else has no turn meanwhile.
    assert turns.count > 2
    # A tenth of what the check itself would take.
    assert turns.longest_sec < 1.0


async def test_a_backtracking_pattern_does_not_block_the_loop(checker: SchemaChecker) -> None:
    async with loop_goes_on():
        said = await refusal(checker, SLOW_VALUE, ENDLESS)
    assert "takes longer than 0.5 s to check: simplify it" in said


async def test_a_schema_that_multiplies_is_checked_in_a_process(
    checker: SchemaChecker,
) -> None:
    """Small, and each word of it harmless: 8 kB that take many seconds."""
    branches = [{"type": "string", "minLength": number} for number in range(150)]
    schema = {"items": {"anyOf": [*branches, {"type": "integer"}]}}
    async with loop_goes_on():
        said = await refusal(checker, [1] * 1500, schema)
        assert "takes longer than 0.5 s" in said
        few = {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
        assert "payload.1" in await refusal(checker, ["a", 1], few)
    assert pids(checker)


async def test_slow_schemas_of_one_owner_do_not_delay_others_and_are_rejected_when_many_are_queued(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes half a second to be given up: all of them together two."""
    assert schema_checker._MAX_CHECKS_OF_OWNER == 10  # as documented
    monkeypatch.setattr(schema_checker, "_MAX_CHECKS_OF_OWNER", 4)
    await checker.check("a", ENDLESS, at="payload", owner="bob")
    slow = [asyncio.create_task(refusal(checker, SLOW_VALUE, ENDLESS)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(AnswersBusy) as busy:
        await checker.check("a", ENDLESS, at="payload", owner="ann")
    assert busy.value.retry_after_sec == 2
    await checker.check("a", ENDLESS, at="payload", owner="bob")
    # In their time rather than by the clock.
    assert not slow[-1].done()
    assert all("takes longer" in said for said in await asyncio.gather(*slow))
    # Of one owner one at a time: the others need no process of their own.
    assert len(pids(checker)) <= 2
    # And then there is room again.
    await checker.check("a", ENDLESS, at="payload", owner="ann")


async def test_a_cancelled_check_does_not_answer_the_next(
    patient: SchemaChecker,
) -> None:
    await patient.check("a", ENDLESS, at="payload", owner="ann")
    checking = asyncio.create_task(patient.check(SLOW_VALUE, ENDLESS, at="payload", owner="ann"))
    await asyncio.sleep(0.05)
    checking.cancel()
    await asyncio.gather(checking, return_exceptions=True)
    assert 'payload="b"' in await refusal(patient, "b", ENDLESS)


async def test_the_next_answer_after_a_timeout_is_checked_by_another_process() -> None:
    async with having_checker(2) as checker:
        await refusal(checker, SLOW_VALUE, ENDLESS)
        assert 'payload="b"' in await refusal(checker, "b", ENDLESS)


async def test_a_plain_schema_needs_no_process(checker: SchemaChecker) -> None:
    assert 'payload="x"' in await refusal(checker, "x", {"type": "integer"})
    await checker.check(3, {"type": "integer"}, at="payload", owner="ann")
    form = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}, "why": {}}}
    await checker.check({"ok": True, "why": "as agreed"}, form, at="payload", owner="ann")
    assert pids(checker) == []


async def test_large_checks_run_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process: list[bytes] = []

    async def noted(self: SchemaChecker, line: bytes, owner: str) -> SchemaCheckResult:
        in_process.append(line)
        return SchemaCheckResult()

    monkeypatch.setattr(SchemaChecker, "_check_in_process", noted)
    long_schema = {"properties": {f"p{number}": {"type": "integer"} for number in range(30)}}
    for value, schema in (
        ([1] * 200, {"items": {"type": "integer"}}),
        (1, long_schema),
        ("x" * 5000, {"type": "string"}),
    ):
        in_process.clear()
        await SchemaChecker().check(value, schema, at="payload", owner="ann")
        assert len(in_process) == 1


async def test_an_invalid_schema_is_reported(checker: SchemaChecker) -> None:
    for schema in ({"type": "nonsense"}, {"pattern": "("}):
        assert "no answer can be checked against the schema of this wait" in await refusal(checker, 1, schema)


async def test_a_process_that_has_died_is_replaced_and_the_last_one_ends_with_the_checker(
    patient: SchemaChecker,
) -> None:
    await patient.check("a", ENDLESS, at="payload", owner="ann")
    [pid] = pids(patient)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(pid), describe="the process has ended")
    await patient.check("a", ENDLESS, at="payload", owner="ann")
    [other] = pids(patient)
    assert other != pid
    assert is_alive(other)
    await patient.close()
    assert not is_alive(other)


async def test_a_process_whose_input_is_closed_is_replaced(patient: SchemaChecker) -> None:
    """The pipe of a killed process is closed before its exit code is known."""
    await patient.check("a", ENDLESS, at="payload", owner="ann")
    [before] = pids(patient)
    [process] = running(patient)
    assert process.stdin is not None
    process.stdin.close()
    await process.stdin.wait_closed()
    assert process.returncode is None
    await patient.check("a", ENDLESS, at="payload", owner="ann")
    assert pids(patient) != [before]
