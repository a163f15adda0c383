"""Reading, replaying and removing dead letters.

A page is bounded by what it reads, not only by what it returns: a filter that matches nothing must not make
one request read a hundred thousand letters.

A letter is closed when a rerun of its run, or a rerun of that, has completed. Nothing is stored for it: the
index of runs knows it.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters, StoredLetter
from pyoco_server.errors import (
    DeadLetterNotFound,
    IndexNotReady,
    InvalidRequest,
    NatsUnavailable,
    NotReplayable,
    RunConflict,
    RunNotFound,
)
from pyoco_server.records.runs.bulk_models import BulkItem
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import Job, RerunMode, RunSnapshot
from pyoco_server.records.value_types import LAST_SEQUENCE
from pyoco_server.runs.index.rerun_outcomes import Rerun
from pyoco_server.runs.index.run_summary import folded
from pyoco_server.runs.lifecycle.rerun import RequestedRerun, rerun_job
from pyoco_server.runs.lifecycle.tenancy import Caller, visible_to

log = logging.getLogger(__name__)

# One page reads about this many letters at most.
_PAGE_READS = 5000
_CLOCK_SKEW_SEC = 60.0

# The decisive rerun of each run (runs/index/rerun_outcomes.py); IndexNotReady while the index is filled.
RerunsOf = Callable[[Iterable[str]], Awaitable[dict[str, Rerun]]]


@dataclass(frozen=True, kw_only=True)
class LetterFilter:
    """A letter matches when all given conditions hold."""

    # Of the caller, never of the request.
    tenant: str | None = None
    # Empty: every reason.
    reasons: frozenset[str] = frozenset()
    tag: str | None = None
    flow: str | None = None
    run_id: str | None = None
    worker: str | None = None
    since: float | None = None
    until: float | None = None
    # A text in its error, reason, flow name, run id or worker, ignoring case.
    q: str | None = None
    # Empty: every letter.
    seqs: frozenset[int] = frozenset()
    # None: open and closed ones.
    closed: bool | None = None

    @cached_property
    def _needle(self) -> str | None:
        return None if self.q is None else folded(self.q)

    def matches(self, letter: DeadLetter) -> bool:
        return (
            visible_to(self.tenant, letter.tenant_id)
            and (not self.reasons or letter.reason in self.reasons)
            and self.tag in (None, letter.tag)
            and self.flow in (None, letter.flow_name)
            and self.run_id in (None, letter.run_id)
            and self.worker in (None, letter.worker_id)
            and (self.since is None or letter.timestamp >= self.since)
            and (self.until is None or letter.timestamp <= self.until)
            and (self._needle is None or self._needle in _text(letter))
        )

    def selects(self, stored: StoredLetter) -> bool:
        """Whether it matches, apart from `closed`."""
        return (not self.seqs or stored.seq in self.seqs) and self.matches(stored.letter)

    def highest(self, before: int | None) -> int | None:
        """Below which sequence letters can match, if they must be below `before`."""
        if not self.seqs:
            return before
        above = max(self.seqs) + 1
        return above if before is None else min(above, before)

    def ends_above(self, seq: int) -> bool:
        """Whether no letter below this sequence can match."""
        return bool(self.seqs) and min(self.seqs) >= seq


def _text(letter: DeadLetter) -> str:
    parts = (letter.error, letter.reason, letter.flow_name, letter.run_id, letter.worker_id)
    return folded("\n".join(part for part in parts if part))


@dataclass(frozen=True, slots=True)
class LetterPage:
    letters: list[StoredLetter]
    # The next page is below this sequence; None on the last page.
    before: int | None
    # By run id, as far as known.
    reruns: dict[str, Rerun] = field(default_factory=dict)


async def find_letter(letters: DeadLetters, seq: str, caller: Caller) -> StoredLetter:
    """DeadLetterNotFound when there is none that the caller may see."""
    is_sequence = seq.isascii() and seq.isdigit() and len(seq) <= 19 and int(seq) <= LAST_SEQUENCE
    stored = await letters.get(int(seq)) if is_sequence else None
    if stored is None or not caller.sees(stored.letter.tenant_id):
        raise DeadLetterNotFound(f"there is no dead letter {seq!r}")
    return stored


async def reruns_of(stored: Iterable[StoredLetter], reruns: RerunsOf) -> dict[str, Rerun]:
    """The decisive rerun of each letter's run; IndexNotReady while the index is filled."""
    return await reruns({each.letter.run_id for each in stored if each.letter.run_id is not None})


async def letter_page(
    letters: DeadLetters,
    letter_filter: LetterFilter,
    *,
    before: int | None,
    limit: int,
    reruns: RerunsOf | None = None,
) -> LetterPage:
    """The newest letters below `before` that match."""
    found: list[StoredLetter] = []
    read = 0
    next_before = None
    async for matching in _matching(letters, letter_filter, before, reruns):
        room = limit - len(found)
        found += matching.letters[:room]
        if len(matching.letters) > room:
            next_before = found[-1].seq
            break
        read += matching.read
        if not matching.last and (len(found) == limit or read >= _PAGE_READS):
            next_before = matching.lowest
            break
    known: dict[str, Rerun] = {}
    if reruns is not None:
        # A list without this is better than none.
        with suppress(IndexNotReady):
            known = await reruns_of(found, reruns)
    return LetterPage(found, next_before, known)


@dataclass(frozen=True, slots=True)
class _Matching:
    """The letters of one window that match."""

    letters: list[StoredLetter]
    # How many the window has.
    read: int
    lowest: int
    last: bool


async def _matching(
    letters: DeadLetters, letter_filter: LetterFilter, before: int | None, reruns: RerunsOf | None
) -> AsyncIterator[_Matching]:
    """The matching letters below `before`, window by window."""
    highest = letter_filter.highest(before)
    async for window in letters.newest_first(tag=letter_filter.tag, before=highest):
        selected = [stored for stored in window.letters if letter_filter.selects(stored)]
        if letter_filter.closed is not None:
            assert reruns is not None, "only the index knows which letters are closed"
            known = await reruns_of(selected, reruns)
            selected = [each for each in selected if _is_closed(each, known) is letter_filter.closed]
        last = window.last or letter_filter.ends_above(window.lowest)
        yield _Matching(selected, len(window.letters), window.lowest, last)
        if last:
            return


def _is_closed(stored: StoredLetter, reruns: dict[str, Rerun]) -> bool:
    rerun = reruns.get(stored.letter.run_id or "")
    return rerun is not None and rerun.completed


async def forget_failure(letters: DeadLetters, failed: RunSnapshot) -> None:
    """Remove the letters of a failed run that continues. They are not older than its end."""
    since = (failed.end_time or failed.updated_at) - _CLOCK_SKEW_SEC
    async for window in letters.newest_first(tag=failed.tag):
        for stored in window.letters:
            if stored.letter.run_id == failed.run_id and stored.letter.reason == failed.reason:
                await letters.delete(stored.seq)
        if any(stored.letter.timestamp < since for stored in window.letters):
            return


async def matching_letters(
    letters: DeadLetters, letter_filter: LetterFilter, *, limit: int, reruns: RerunsOf | None = None
) -> list[BulkItem]:
    """The newest letters that match, however old."""
    found: list[BulkItem] = []
    async for matching in _matching(letters, letter_filter, None, reruns):
        found += [BulkItem(str(stored.seq), stored.digest) for stored in matching.letters]
        if len(found) >= limit:
            break
    return found[:limit]


async def replay_job(connection: Connection, stored: StoredLetter, caller: Caller, *, mode: RerunMode) -> Job:
    """The job that reruns the letter's run; NotReplayable says why there is none."""
    letter = stored.letter
    if letter.run_id is None:
        raise NotReplayable(
            f"dead letter {stored.seq} ({letter.reason}) names no run: its job could not be read"
        )
    try:
        return await rerun_job(connection, RequestedRerun(letter.run_id, mode), caller)
    except RunNotFound:
        raise NotReplayable(
            f"run {letter.run_id} of dead letter {stored.seq} is not stored any more"
        ) from None
    except RunConflict as conflict:
        raise NotReplayable(conflict.detail) from None
    except InvalidRequest as invalid:
        raise NotReplayable("; ".join(map(str, invalid.problems))) from None


async def remove_letter_of(letters: DeadLetters, seq: int, run_id: str) -> bool:
    """Best effort: remove the letter of a run that was rerun; whether it is removed."""
    try:
        stored = await letters.get(seq)
        # A letter of another run means that the stream was recreated.
        if stored is not None and stored.letter.run_id == run_id:
            await letters.remove(seq)
    except NatsUnavailable as error:
        log.warning("dead letter %d is not removed: %s", seq, error, extra={"run_id": run_id})
        return False
    return True
