"""Reading dead letters, newest first: a page at a time, or all that match a filter.

A page is bounded by what it reads as well as by what it answers: a filter that matches nothing must not make
one request read a hundred thousand letters. The cursor is the sequence below which to go on, so that it stays
right while letters come and go.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pyoco_server.broker.stores.dead_letters import DeadLetters, StoredLetter
from pyoco_server.errors import DeadLetterNotFound
from pyoco_server.records.models import DeadLetter, RunSnapshot
from pyoco_server.records.operation_models import LAST_SEQUENCE
from pyoco_server.runs.index.run_summary import folded
from pyoco_server.runs.lifecycle.tenancy import Caller, visible_to

# How many letters one page reads at most, or a little more.
_PAGE_READS = 5000
_CLOCKS_DIFFER_SEC = 60.0


@dataclass(frozen=True, kw_only=True)
class LetterFilter:
    """A letter matches when all that is given here holds for it."""

    # Of whoever asks: it is never taken from what is asked.
    tenant: str | None = None
    # Any of these; none given: every reason.
    reasons: frozenset[str] = frozenset()
    tag: str | None = None
    flow: str | None = None
    run_id: str | None = None
    worker: str | None = None
    since: float | None = None
    until: float | None = None
    # Somewhere in its error, reason, flow name, run id or worker, in upper or lower case.
    q: str | None = None

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


def _text(letter: DeadLetter) -> str:
    said = (letter.error, letter.reason, letter.flow_name, letter.run_id, letter.worker_id)
    return folded("\n".join(part for part in said if part))


class LetterId(NamedTuple):
    """Which letter it is, without what is in it."""

    seq: int
    digest: str


@dataclass(frozen=True, slots=True)
class LetterPage:
    letters: list[StoredLetter]
    # Below which sequence to go on; None when there is nothing more.
    before: int | None


async def find_letter(letters: DeadLetters, seq: str, caller: Caller) -> StoredLetter:
    """DeadLetterNotFound when there is none, or when it is not the caller's to know of."""
    is_sequence = seq.isascii() and seq.isdigit() and len(seq) <= 19 and int(seq) <= LAST_SEQUENCE
    stored = await letters.get(int(seq)) if is_sequence else None
    if stored is None or not caller.sees(stored.letter.tenant_id):
        raise DeadLetterNotFound(f"there is no dead letter {seq!r}")
    return stored


async def letter_page(
    letters: DeadLetters, wanted: LetterFilter, *, before: int | None, limit: int
) -> LetterPage:
    """The newest letters below `before` that match."""
    found: list[StoredLetter] = []
    read = 0
    async for window in letters.newest_first(tag=wanted.tag, before=before):
        for stored in window.letters:
            if len(found) == limit:
                return LetterPage(found, found[-1].seq)
            if wanted.matches(stored.letter):
                found.append(stored)
        read += len(window.letters)
        if not window.last and (len(found) == limit or read >= _PAGE_READS):
            return LetterPage(found, window.lowest)
    return LetterPage(found, None)


async def forget_failure(letters: DeadLetters, failed: RunSnapshot) -> None:
    """Remove the letters of a run that had failed and goes on: nobody has to do anything about it any more.

    They are among those that came after its end; a moment before, by another clock.
    """
    since = (failed.end_time or failed.updated_at) - _CLOCKS_DIFFER_SEC
    async for window in letters.newest_first(tag=failed.tag):
        for stored in window.letters:
            if stored.letter.run_id == failed.run_id and stored.letter.reason == failed.reason:
                await letters.delete(stored.seq)
        if any(stored.letter.timestamp < since for stored in window.letters):
            return


async def matching_letters(letters: DeadLetters, wanted: LetterFilter, *, limit: int) -> list[LetterId]:
    """The newest letters that match, however far back they are."""
    found: list[LetterId] = []
    async for window in letters.newest_first(tag=wanted.tag):
        matching = (stored for stored in window.letters if wanted.matches(stored.letter))
        found += [LetterId(stored.seq, stored.digest) for stored in matching]
        if len(found) >= limit:
            break
    return found[:limit]
