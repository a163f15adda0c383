"""Invariants of what runs wait for: answers, deadlines, signals and events."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import WaitState
from tests.simulation.invariants.evidence import CLOCK_SEC, Evidence, Invariant, Response


def an_answer_counts_once(evidence: Evidence) -> Iterator[str]:
    if evidence.lost_writes:
        return
    accepted: dict[str, set[str]] = defaultdict(set)
    for request in evidence.of_kind("answer"):
        if request.wait_id is None:
            continue
        if request.response is Response.DONE:
            accepted[request.wait_id].add(repr(request.payload))
    for wait_id, payloads in accepted.items():
        if len(payloads) > 1:
            yield f"wait {wait_id} has accepted different answers: {', '.join(sorted(payloads))}"
        wait = evidence.waits.get(wait_id)
        if wait is not None and wait.state is not WaitState.ANSWERED:
            yield f"an answer to wait {wait_id} was accepted, and the wait is {wait.state}"
        elif wait is not None and repr(wait.payload) not in payloads:
            yield f"wait {wait_id} has accepted {payloads}, and has the answer {wait.payload!r}"


def a_repeated_answer_gets_its_receipt(evidence: Evidence) -> Iterator[str]:
    """Also if it is repeated at the moment of the response: no simulated time passes between the two."""
    for request in evidence.of_kind("answer"):
        if request.key is None or request.response is not Response.REFUSED:
            continue
        same = [each for each in evidence.requests if each.kind == "answer" and each.key == request.key]
        if any(each.response is Response.DONE and each.ended_at <= request.began_at for each in same):
            yield f"answer {request.key} was accepted, and its repetition refused: {request.text}"


def each_wait_event_is_published_once(evidence: Evidence) -> Iterator[str]:
    """Under its id; one for the opening of each question, and one for its decision."""
    if evidence.lost_writes:
        return
    published = Counter(event.event_id for event in evidence.wait_events)
    for event_id, count in published.items():
        if count > 1:
            yield f"event {event_id} is in the stream {count} times"
    for wait in evidence.waits.values():
        if not wait.is_human:
            continue
        expected = {f"{wait.wait_id}.opened", f"{wait.wait_id}.reused"}
        if not expected & published.keys():
            yield f"the opening of wait {wait.wait_id} was never published"
        is_decided = wait.state is not WaitState.OPEN and wait.taken_from is None
        if is_decided and f"{wait.wait_id}.{wait.state}" not in published:
            yield f"wait {wait.wait_id} is {wait.state}, which was never published"


def a_decided_wait_never_changes(evidence: Evidence) -> Iterator[str]:
    decided: dict[str, tuple[str, str]] = {}
    for wait in (write.record for write in evidence.wait_writes):
        now = str(wait.state), repr(wait.payload)
        before = decided.get(wait.wait_id)
        if before is not None and before != now:
            yield f"wait {wait.wait_id} was decided as {before} and is written as {now}"
        if wait.state is not WaitState.OPEN:
            decided[wait.wait_id] = now


def a_wait_is_over_at_its_time(evidence: Evidence) -> Iterator[str]:
    """By the server's clock; a gateway knows it to some milliseconds."""
    for write in evidence.wait_writes:
        wait = write.record
        if wait.state is WaitState.EXPIRED and write.wall < wait.deadline_at - CLOCK_SEC:
            yield f"wait {wait.wait_id} has expired {wait.deadline_at - write.wall:.1f} s before its time"


def a_signal_is_received_once(evidence: Evidence) -> Iterator[str]:
    received: Counter[tuple[str, str]] = Counter()
    for wait in evidence.waits.values():
        if wait.kind is WaitKind.SIGNAL and wait.state is WaitState.ANSWERED and wait.decision_id is not None:
            received[wait.run_id, wait.decision_id] += 1
    for (run_id, signal_id), count in received.items():
        if count > 1:
            yield f"signal {signal_id} of run {run_id} was received by {count} waits"


def what_was_sent_is_received(evidence: Evidence) -> Iterator[str]:
    sent = [each for each in evidence.of_kind("event") if each.response is Response.DONE]
    stored = {write.run_id: write.at for write in reversed(evidence.run_writes)}
    for wait in evidence.waits.values():
        if wait.state is not WaitState.OPEN or evidence.lost_writes:
            continue
        mailbox = evidence.mailboxes.get(wait.run_id)
        free = [each for each in mailbox.signals if each.taken_by is None] if mailbox is not None else []
        if wait.kind is WaitKind.SIGNAL and any(signal.name == wait.topic for signal in free):
            yield f"wait {wait.wait_id} is open, and its run has an unreceived signal {wait.topic}"
        later = [each for each in sent if each.began_at > stored.get(wait.run_id, 0.0)]
        if wait.kind is WaitKind.EVENT and any(event.payload == wait.topic for event in later):
            yield f"wait {wait.wait_id} is open, although the event {wait.topic} was sent"


ALL: Final[tuple[Invariant, ...]] = (
    an_answer_counts_once,
    a_repeated_answer_gets_its_receipt,
    each_wait_event_is_published_once,
    a_decided_wait_never_changes,
    a_wait_is_over_at_its_time,
    a_signal_is_received_once,
    what_was_sent_is_received,
)
