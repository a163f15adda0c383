"""How often alerts are evaluated: by the processor time that they take, and not by the time that passes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyoco_server.alerts import alert_evaluator
from pyoco_server.alerts.alert_directory import row_of
from pyoco_server.alerts.alert_evaluator import AlertEvaluator
from pyoco_server.alerts.alert_transitions import AlertFinding
from pyoco_server.records.monitoring.alert_models import AlertFacts
from tests.support.samples.alerts import an_alert

NOW = 1000.0
INTERVAL_SEC = 1.0


class Clocks:
    """Of a round that takes some seconds, in which the process has a processor for some of them."""

    def __init__(self, *, passed_sec: float, used_sec: float) -> None:
        self._passed = iter((0.0, passed_sec))
        self._used = iter((0.0, used_sec))

    def monotonic(self) -> float:
        return next(self._passed)

    def process_time(self) -> float:
        return next(self._used)


class Reading:
    async def find(self, record: Any, _: float) -> AlertFinding:
        return AlertFinding(record.revision, record.cursor, False, AlertFacts(), 0)


async def next_evaluation(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> float | None:
    """How many seconds after a round the next one is due."""
    rows = [row_of(an_alert())]
    directory = SimpleNamespace(ready=True, rows=lambda: rows)
    conditions = SimpleNamespace(begin=Reading)
    evaluator = AlertEvaluator(
        cast("Any", None),
        cast("Any", directory),
        cast("Any", conditions),
        clock=lambda: NOW,
        interval_sec=INTERVAL_SEC,
    )
    monkeypatch.setattr(alert_evaluator, "time", clocks)
    at = await evaluator.run_due(NOW)
    return None if at is None else at - NOW


async def test_a_round_that_waits_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(passed_sec=30.0, used_sec=0.01)
    assert await next_evaluation(monkeypatch, clocks) == INTERVAL_SEC


async def test_rounds_take_at_most_a_tenth_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(passed_sec=2.0, used_sec=2.0)
    assert await next_evaluation(monkeypatch, clocks) == pytest.approx(18.0)
