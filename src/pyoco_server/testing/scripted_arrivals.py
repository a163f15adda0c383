"""The signals and events that a test sends, and the sleeps that it skips."""

from collections.abc import Sequence
from typing import Any

from pyoco_server.records.json_pointers import matches
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import NO_DEADLINE, WaitRecord
from pyoco_server.waits.wait_transitions import expired, satisfied

# The name of a signal or event, and its data.
Arrival = tuple[str, Any]


class ScriptedArrivals:
    """Everything is sent before the flow begins: each signal is received once, an event by all that match."""

    def __init__(self, signals: Sequence[Arrival], events: Sequence[Arrival]) -> None:
        self._signals = list(signals)
        self._events = list(events)
        # In seconds, in order.
        self.slept: list[float] = []

    def decided(self, wait: WaitRecord) -> WaitRecord:
        """The wait after its signal, event or time; unchanged if nothing of the script ends it."""
        if wait.kind is WaitKind.SLEEP:
            self.slept.append(round(wait.deadline_at - wait.created_at, 3))
            return expired(wait, at=wait.deadline_at)
        sent = self._signals if wait.kind is WaitKind.SIGNAL else self._events
        for number, (name, data) in enumerate(sent):
            if name == wait.topic and matches(wait.match, data):
                if wait.kind is WaitKind.SIGNAL:
                    del sent[number]
                return satisfied(wait, payload=data, decision_id="test", at=wait.created_at)
        return wait if wait.deadline_at == NO_DEADLINE else expired(wait, at=wait.deadline_at)


def missing_arrival(wait: WaitRecord) -> str:
    """What the test has to send, for a wait that nothing has ended."""
    which = f"{wait.topic!r} that matches {wait.match}" if wait.match else f"{wait.topic!r}"
    add = f"add {wait.kind}s=[({wait.topic!r}, ...)]"
    return f"task {wait.task} waits for the {wait.kind} {which}, and the test sends none: {add}"
