"""Deliveries of which only the number is kept."""

from pyoco_server.broker.stores.triggers.delivery_store import HookInstance
from pyoco_server.records.triggers.hook_models import DeliveryStatus, DeliverySummary
from pyoco_server.triggers.hooks.delivery_counter import DeliveryCounter

HOOK = HookInstance(None, "orders", "1")
OTHER = HookInstance(None, "builds", "1")


class Records:
    def __init__(self) -> None:
        self.written: list[tuple[str, float, int]] = []
        self.wakes = 0
        self.counter = DeliveryCounter(self.write)
        self.counter.on_counted(self.wake)

    def write(self, hook: HookInstance, summary: DeliverySummary) -> None:
        self.written.append((hook.hook_id, summary.at, summary.count))

    def wake(self) -> None:
        self.wakes += 1

    def refuse(self, hook: HookInstance, at: float) -> None:
        self.counter.add(hook, DeliverySummary(at=at, status=DeliveryStatus.REFUSED))


async def test_the_first_is_written_at_once_and_the_others_at_the_end_of_the_minute() -> None:
    records = Records()
    for at in (100.0, 101.0, 102.0, 159.9):
        records.refuse(HOOK, at)
    records.refuse(OTHER, 130.0)
    assert records.written == [("orders", 100.0, 1), ("builds", 130.0, 1)]
    assert records.wakes == 2
    assert await records.counter.run_due(159.9) == 160.0
    assert await records.counter.run_due(160.0) == 190.0
    assert records.written[2:] == [("orders", 159.9, 3)]
    assert await records.counter.run_due(190.0) is None
    assert len(records.written) == 3


async def test_a_late_timer_loses_no_number() -> None:
    records = Records()
    for at in (100.0, 101.0, 200.0):
        records.refuse(HOOK, at)
    assert records.written == [("orders", 100.0, 1), ("orders", 101.0, 1), ("orders", 200.0, 1)]


def test_what_was_counted_is_written_when_the_gateway_stops() -> None:
    records = Records()
    for at in (100.0, 101.0):
        records.refuse(HOOK, at)
    records.counter.end_all()
    assert records.written == [("orders", 100.0, 1), ("orders", 101.0, 1)]


def test_many_hooks_take_bounded_memory_and_lose_no_number() -> None:
    records = Records()
    records.refuse(HOOK, 100.0)
    records.refuse(HOOK, 101.0)
    for number in range(1000):
        records.refuse(HookInstance(None, str(number), "1"), 102.0)
    assert ("orders", 101.0, 1) in records.written
