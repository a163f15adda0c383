"""The rules of a mailbox, as pure functions: what is kept, and which wait receives which signal.

Why no signal is lost and none is received twice: docs/sleeps-and-signals.md, "What is guaranteed".
"""

from collections.abc import Iterable
from operator import is_
from typing import Final

from msgspec import structs

from pyoco_server.errors import MailboxFull
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.signal_models import Mailbox, Signal, encode
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState

# Signals that no wait has received; and how many of those that were received are kept.
MAX_PENDING: Final = 1000
MAX_RECEIVED: Final = 1000
# Of the record, with the received ones: less than the limit of a NATS message, which is 1 MiB unless an
# operator changes it.
MAX_BYTES: Final = 768 * 1024


def find_signal(mailbox: Mailbox, signal_id: str) -> Signal | None:
    return next((signal for signal in mailbox.signals if signal.signal_id == signal_id), None)


def with_signal(mailbox: Mailbox, signal: Signal) -> Mailbox:
    """The mailbox with one more signal; MailboxFull if it has no room for it."""
    pending = sum(each.taken_by is None for each in mailbox.signals)
    if pending >= MAX_PENDING:
        raise MailboxFull(f"{pending} signals were not received yet; a run keeps at most {MAX_PENDING}")
    grown = structs.replace(mailbox, signals=[*mailbox.signals, signal])
    if (size := len(encode(grown))) > MAX_BYTES:
        raise MailboxFull(
            f"its {len(grown.signals)} signals, with those received, would take {size} bytes; "
            f"a run keeps at most {MAX_BYTES}"
        )
    return grown


def assigned(mailbox: Mailbox, waits: Iterable[WaitRecord]) -> Mailbox:
    """The mailbox after each open wait has taken the first free signal of its name, the oldest wait first.

    It is the same object if nothing changes. `waits` are those of the run, from the leader.
    """
    by_id = {wait.wait_id: wait for wait in waits if wait.kind is WaitKind.SIGNAL}
    signals = [_freed(signal, by_id) for signal in mailbox.signals]
    taken = {signal.taken_by for signal in signals}
    free = [wait for wait in by_id.values() if _is_open(wait) and wait.wait_id not in taken]
    for wait in sorted(free, key=lambda each: (each.created_at, each.wait_id)):
        for number, signal in enumerate(signals):
            if signal.taken_by is None and signal.name == wait.topic:
                signals[number] = structs.replace(signal, taken_by=wait.wait_id)
                break
    if all(map(is_, signals, mailbox.signals)):
        return mailbox
    return trimmed(structs.replace(mailbox, signals=signals), by_id.values())


def deliveries(mailbox: Mailbox, waits: Iterable[WaitRecord]) -> dict[str, Signal]:
    """The signals that open waits have taken, by the id of the wait."""
    open_ids = {wait.wait_id for wait in waits if _is_open(wait)}
    return {signal.taken_by: signal for signal in mailbox.signals if signal.taken_by in open_ids}


def trimmed(mailbox: Mailbox, waits: Iterable[WaitRecord]) -> Mailbox:
    """Drop the data of received signals (their waits have it), and the oldest ones beyond MAX_RECEIVED."""
    received = received_by(waits)
    signals = [
        structs.replace(signal, data=None, trimmed=True)
        if not signal.trimmed and signal.taken_by is not None and signal.signal_id in received
        else signal
        for signal in mailbox.signals
    ]
    excess = max(0, sum(signal.trimmed for signal in signals) - MAX_RECEIVED)
    kept: list[Signal] = []
    for signal in signals:
        if signal.trimmed and excess:
            excess -= 1
        else:
            kept.append(signal)
    removed = mailbox.removed + len(signals) - len(kept)
    return structs.replace(mailbox, signals=kept, removed=removed)


def _freed(signal: Signal, waits: dict[str, WaitRecord]) -> Signal:
    """The signal, free again if its wait was decided without it."""
    wait = waits.get(signal.taken_by or "")
    if wait is None or _is_open(wait) or wait.decision_id == signal.signal_id:
        return signal
    return structs.replace(signal, taken_by=None)


def _is_open(wait: WaitRecord) -> bool:
    return wait.state is WaitState.OPEN


def received_by(waits: Iterable[WaitRecord]) -> dict[str, WaitRecord]:
    """The answered waits for signals, by the id of the signal."""
    return {
        wait.decision_id: wait
        for wait in waits
        if wait.kind is WaitKind.SIGNAL and wait.state is WaitState.ANSWERED and wait.decision_id is not None
    }
