"""Answers are checked without holding up the gateway, whatever the schema is."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.errors import InvalidAnswer
from pyoco_server.human.schema_checker import SchemaChecker

from .support.processes import is_alive

ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
SLOW_VALUE = "a" * 40 + "!"


@pytest.fixture
async def checker() -> AsyncIterator[SchemaChecker]:
    checker = SchemaChecker(limit_sec=0.5)
    yield checker
    await checker.close()


async def refusal(checker: SchemaChecker, value: Any, schema: dict[str, Any] | bool) -> str:
    with pytest.raises(InvalidAnswer) as refused:
        await checker.check(value, schema, at="payload")
    return str(refused.value)


async def test_a_pattern_that_never_ends_is_refused_and_the_loop_goes_on(checker: SchemaChecker) -> None:
    longest, last = 0.0, time.monotonic()
    checking = asyncio.create_task(refusal(checker, SLOW_VALUE, ENDLESS))
    while not checking.done():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert "takes longer than 0.5 s to check: mend its patterns" in await checking
    # A tenth of what the check itself would take.
    assert longest < 1.0


async def test_the_next_answer_is_checked_by_another_process(checker: SchemaChecker) -> None:
    await refusal(checker, SLOW_VALUE, ENDLESS)
    assert "payload='b'" in await refusal(checker, "b", ENDLESS)
    await checker.check("aaa", ENDLESS, at="payload")


async def test_a_check_that_nobody_waits_for_any_more_does_not_answer_the_next_one(
    checker: SchemaChecker,
) -> None:
    await checker.check("a", ENDLESS, at="payload")
    checking = asyncio.create_task(checker.check(SLOW_VALUE, ENDLESS, at="payload"))
    await asyncio.sleep(0.05)
    checking.cancel()
    await asyncio.gather(checking, return_exceptions=True)
    assert "payload='b'" in await refusal(checker, "b", ENDLESS)


async def test_a_plain_schema_needs_no_process(checker: SchemaChecker) -> None:
    assert "payload='x'" in await refusal(checker, "x", {"type": "integer"})
    await checker.check(3, {"type": "integer"}, at="payload")
    assert checker._process is None


async def test_a_schema_that_is_none_is_told_as_such(checker: SchemaChecker) -> None:
    for schema in ({"type": "nonsense"}, {"pattern": "("}):
        assert "no answer can be checked against the schema of this wait" in await refusal(checker, 1, schema)


async def test_the_process_ends_with_the_checker() -> None:
    checker = SchemaChecker()
    await checker.check("a", ENDLESS, at="payload")
    assert checker._process is not None
    pid = checker._process.pid
    assert is_alive(pid)
    await checker.close()
    assert not is_alive(pid)


async def test_a_process_that_has_died_is_replaced(checker: SchemaChecker) -> None:
    await checker.check("a", ENDLESS, at="payload")
    assert checker._process is not None
    checker._process.kill()
    await checker._process.wait()
    await checker.check("a", ENDLESS, at="payload")
