"""Replaying a dead letter: its run, repeated as a new run. What is missing for that is said."""

import logging

from pyoco_server.broker.stores.dead_letters import DeadLetters, StoredLetter
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import InvalidRequest, NatsUnavailable, NotReplayable, RunConflict, RunNotFound
from pyoco_server.records.models import Job, RerunMode
from pyoco_server.runs.lifecycle.rerun import rerun_job
from pyoco_server.runs.lifecycle.tenancy import Caller

log = logging.getLogger(__name__)


async def replay_job(
    store: RunStore, journal: Journal, stored: StoredLetter, caller: Caller, *, mode: RerunMode
) -> Job:
    """The job of the new run; NotReplayable says why there can be none."""
    letter = stored.letter
    if letter.run_id is None:
        raise NotReplayable(
            f"dead letter {stored.seq} ({letter.reason}) names no run: the job could not be read, "
            "so that nobody knows what it was to do"
        )
    try:
        return await rerun_job(store, journal, letter.run_id, caller, mode=mode)
    except RunNotFound:
        raise NotReplayable(
            f"run {letter.run_id} of dead letter {stored.seq} is not stored any more, and with it its params"
        ) from None
    except RunConflict as conflict:
        # Not ended, or its flow.yaml is gone.
        raise NotReplayable(conflict.detail) from None
    except InvalidRequest as invalid:
        raise NotReplayable("; ".join(map(str, invalid.problems))) from None


async def remove_letter_of(letters: DeadLetters, seq: int, run_id: str) -> bool:
    """Best effort: whether the letter of a run that was repeated is removed now."""
    try:
        stored = await letters.get(seq)
        # Of another run: the stream was made anew, and this letter is gone with the old one.
        if stored is not None and stored.letter.run_id == run_id:
            await letters.remove(seq)
    except NatsUnavailable as error:
        log.warning("dead letter %d is not removed: %s", seq, error, extra={"run_id": run_id})
        return False
    return True
