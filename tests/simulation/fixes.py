"""The fixes of defects that were found by forcing interleavings, and how to revert each of them.

A revert is a substitution in today's code that brings the defect back; it fails when the code has changed, so
that the table is kept up to date. Fixes that concern a real process (executors, files, signals) are not here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.simulation.code_substitution import Substitution, substituted

_RUNS: Final = "pyoco_server.runs"
_WAITS: Final = "pyoco_server.waits"
_BROKER: Final = "pyoco_server.broker"


@dataclass(frozen=True, slots=True)
class Fix:
    name: str
    # The item of the issue, the commit of a later fix, or `mutation`.
    item: str
    # What happens without it.
    defect: str
    # The scenarios that can find it, the likeliest first.
    scenarios: tuple[str, ...]
    reverts: tuple[Substitution, ...]

    @contextmanager
    def reverted(self) -> Iterator[None]:
        with substituted(*self.reverts):
            yield


FIXES: tuple[Fix, ...] = (
    Fix(
        "sweep-forgets-newer-state",
        "1",
        "the sweep forgets a run that was written while it looked at it, and the run is stuck for good",
        ("sweep",),
        (
            Substitution(
                f"{_RUNS}.open_runs:OpenRuns.forget",
                "if run is not None and run.revision == revision:",
                "if run is not None:",
            ),
        ),
    ),
    Fix(
        "retention-strips-first",
        "2",
        "retention removes journal and waits before it owns the run, which may be retried in between",
        ("retention",),
        (
            Substitution(
                f"{_RUNS}.sweep.retention:Retention._remove",
                "    try:\n        await self._store.delete",
                "    await self._remove_records(run_id)\n    try:\n        await self._store.delete",
            ),
        ),
    ),
    Fix(
        "rerun-of-a-removed-journal",
        "2",
        "a rerun copies the journal of a run that retention removes meanwhile: finished tasks execute again",
        ("retention",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.submission:Submitter._copy_journal",
                "if not await self._store.exists(origin):",
                "if False:",
            ),
        ),
    ),
    Fix(
        "job-of-an-earlier-generation",
        "3",
        "an answered run is not continued while the job of its earlier generation counts as queued",
        ("answer",),
        (
            Substitution(
                f"{_BROKER}.queue.queued_runs:QueuedRuns.is_queued",
                "return job is not None and job.generation >= min_generation",
                "return job is not None",
            ),
            Substitution(
                f"{_BROKER}.queue.queued_runs:_replaces",
                "return job.generation > known.generation",
                "return False",
            ),
            Substitution(
                f"{_RUNS}.open_runs:_is_newly_parked",
                "(before.state.status, before.state.generation) != (now.status, now.generation)",
                "before.state.status != now.status",
            ),
        ),
    ),
    Fix(
        "bulk-503-although-done",
        "4",
        "a bulk operation is executed although its request was answered with 503",
        ("bulk",),
        (
            Substitution(
                f"{_RUNS}.bulk.bulk_operations:BulkSubmitter.submit",
                "except NatsUnavailable as failure:\n",
                "except NatsUnavailable as failure:\n        raise\n",
            ),
        ),
    ),
    Fix(
        "replay-503-although-done",
        "4",
        "a replayed dead letter is answered with 503 although its run was started",
        ("letters",),
        (
            Substitution(
                f"{_RUNS}.bulk.letter_operations:remove_letter_of",
                "except NatsUnavailable as error:\n",
                "except NatsUnavailable as error:\n        raise\n",
            ),
        ),
    ),
    Fix(
        "retry-503-although-done",
        "4",
        "a retry is answered with 503 although the run waits again",
        ("retry",),
        (
            Substitution(
                f"{_WAITS}.human.reopen:retry_run",
                "except NatsUnavailable as failure:\n",
                "except NatsUnavailable as failure:\n            raise\n",
            ),
        ),
    ),
    Fix(
        "cancel-503-although-done",
        "4",
        "a cancel is answered with 503 although the run is CANCELLING",
        ("cancel",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.cancel_request:_store_request",
                "except NatsUnavailable as failure:\n",
                "except NatsUnavailable as failure:\n            raise\n",
            ),
        ),
    ),
    Fix(
        "log-ended-by-a-refused-write",
        "5",
        "a followed log ends with the status of a write that JetStream has refused",
        ("logs",),
        (
            Substitution(
                f"{_BROKER}.stores.runs.run_hints:RunWatch.on_snapshot",
                "may_have_ended = _decode(message.data).status.terminal",
                "self.status = _decode(message.data).status\n        may_have_ended = self.status.terminal",
            ),
            Substitution(
                f"{_BROKER}.stores.runs.run_hints:RunWatch.reset",
                "    if self._end:\n        self.status = None\n",
                "",
            ),
        ),
    ),
    Fix(
        "lost-tail-not-noticed",
        "6",
        "a list stays wrong after NATS has lost its newest messages",
        ("lost_tail",),
        (
            Substitution(
                f"{_BROKER}.jetstream.feed_history:FeedHistory.compare",
                "if not checkpoint.revision:",
                "if checkpoint.revision <= state.last_sequence:",
            ),
        ),
    ),
    Fix(
        "opened-event-lost",
        "7",
        "the event of an opened wait is lost when its worker dies between wait and event",
        ("answer",),
        (
            Substitution(
                "pyoco_server.worker.session.run_questions:RunQuestions.ask",
                "await self._store.create(wait, outbox=outbox)",
                "await self._store.create(wait)",
            ),
        ),
    ),
    Fix(
        "outcome-event-lost",
        "7",
        "the event of an answer or an expiry is lost when its one publish fails",
        ("answer",),
        (
            Substitution(
                f"{_WAITS}.wait_event_outbox:write_transition",
                "await waits.replace(changed, wait.revision, outbox=outbox)",
                "await waits.replace(changed, wait.revision)",
            ),
        ),
    ),
    Fix(
        "resume-reads-a-replica",
        "8",
        "a repeated resume with the same decision_id is a conflict while a replica lags",
        ("answer",),
        (
            Substitution(
                f"{_WAITS}.human.answers.answering:AnswerHandler.resume",
                "stored = await self._waits.of_run_from_leader(run_id)",
                "stored = self._waits._waits_in([each async for each in self._waits._messages(run_id)])",
            ),
        ),
    ),
    Fix(
        "retry-reads-a-replica",
        "suspected",
        "a retry misses waits that a lagging replica does not have yet",
        ("retry",),
        (
            Substitution(
                f"{_WAITS}.human.reopen:retry_run",
                "asked = [wait.record for wait in await waits.of_run_from_leader(run_id)]",
                "found = waits._waits_in([each async for each in waits._messages(run_id)])\n"
                "        asked = [wait.record for wait in found]",
            ),
        ),
    ),
    Fix(
        "purged-run-stays-listed",
        "9",
        "a run that was purged stays listed while the bucket has a delete marker",
        ("purge",),
        (
            Substitution(
                f"{_BROKER}.jetstream.bucket_feed:BucketFeed._look_for_removed_keys",
                "known = reader.entries + reader.markers",
                "known = reader.entries",
            ),
        ),
    ),
    Fix(
        "withdrawn-after-the-answer",
        "10",
        "a submit is answered with 503 before it is withdrawn, and executes when its gateway is killed",
        ("submit",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.withdrawal:Withdrawer.withdraw_or_keep",
                "        async with asyncio.timeout(BEFORE_RESPONSE_SEC):\n"
                "            started = await withdrawal.undo()\n",
                "        self._waiting.put_nowait(withdrawal)\n        started = None\n",
            ),
        ),
    ),
    Fix(
        "letters-by-sequence-alone",
        "10",
        "a bulk operation handles letters of a recreated stream that reuse the counted sequences",
        ("recreated",),
        (
            Substitution(
                f"{_RUNS}.bulk.bulk_runner:BulkSteps._counted_letter",
                "if stored is None or item.digest not in (None, stored.digest):",
                "if stored is None:",
            ),
        ),
    ),
    Fix(
        "never-begun-and-failed",
        "12",
        "a run that no worker began fails with deliveries_exhausted",
        ("sweep",),
        (
            Substitution(
                f"{_RUNS}.sweep.exhausted_deliveries:needs_new_job",
                "return snapshot.delivery is None or snapshot.delivery.number < deliveries or "
                "was_handed_back(snapshot)",
                "return was_handed_back(snapshot)",
            ),
        ),
    ),
    Fix(
        "limit-by-the-wall-clock",
        "17",
        "a run is timed out by a clock that has jumped, or by that of another machine",
        ("limits",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.ownership:OwnedRun.used_sec",
                "return self._used_before_sec + time.monotonic() - self._owned_since",
                "return max(0.0, time.time() - (self.snapshot.start_time or 0.0))",
            ),
        ),
    ),
    Fix(
        "journal-in-the-order-of-the-stream",
        "20",
        "a replay takes the order in which results were stored, not that in which tasks finished",
        ("journal",),
        (
            Substitution(
                "pyoco_server.records.runs.journal_order:valid_entries",
                "return sorted(newest.values(), key=lambda entry: entry.place)",
                "return list(newest.values())",
            ),
            Substitution(
                "pyoco_server.records.runs.journal_order:_without_gap",
                "return [entry for entry in entries if entry.number <= last]",
                "return entries",
            ),
        ),
    ),
    Fix(
        "late-entries-of-an-old-attempt",
        "20",
        "results that a replaced attempt stores late are mixed with those of its successor",
        ("journal",),
        (
            Substitution(
                "pyoco_server.records.runs.journal_order:_continued",
                "entry for entry in stored if not entry.number or "
                "entry.number <= limits[entry.attempt, entry.base]",
                "entry for entry in stored",
            ),
        ),
    ),
    Fix(
        "nak-after-ack-wait",
        "21",
        "a worker that was paused past AckWait hands back a delivery that another worker has by then",
        ("sweep", "submit"),
        (
            Substitution(
                f"{_BROKER}.queue.work_queue:Delivery.nak",
                "if self.has_expired:",
                "if False:",
            ),
        ),
    ),
    Fix(
        "retention-by-its-own-clock",
        "suspected",
        "a gateway whose clock jumps ahead removes runs that have just ended",
        ("retention",),
        (
            Substitution(
                f"{_RUNS}.sweep.retention:Retention.remove_ended",
                "(await stream_state(self._connection, self._stream)).server_time",
                "time.time()",
            ),
        ),
    ),
    Fix(
        "stale-advisory",
        "suspected",
        "an advisory of a stream that was recreated fails a fresh run",
        ("recreated",),
        (
            Substitution(
                f"{_RUNS}.sweep.exhausted_deliveries:ExhaustedDeliveries._is_stale",
                "if snapshot.delivery is not None:",
                "if True:",
            ),
        ),
    ),
    Fix(
        "foreign-end-taken-for-its-own",
        "suspected",
        "a worker takes the end that a gateway has written for its own, and reports it",
        ("sweep",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.ownership:OwnedRun._ended",
                "by_us = self.snapshot.updated_at in self._unacknowledged",
                "by_us = True",
            ),
        ),
    ),
    Fix(
        "two-retries",
        "152a482c",
        "the second of two concurrent retries is refused",
        ("retry",),
        (
            Substitution(
                f"{_WAITS}.human.reopen:_require_change",
                "if now is not None and now.revision == failed.revision:",
                "if True:",
            ),
        ),
    ),
)

# Found by the simulation itself.
FIXES += (
    Fix(
        "run-waits-for-a-lost-wait",
        "new",
        "a parked run whose wait NATS has lost in a power failure waits for good",
        ("lost_tail",),
        (
            Substitution(
                f"{_WAITS}.continuation:Continuations._try_continue",
                "lost = self._lost(stored.snapshot, waits)",
                "lost = []",
            ),
        ),
    ),
    Fix(
        "retry-503-after-another-expiry",
        "new",
        "a retry is answered with 503 although it was done, if the wait has expired again meanwhile",
        ("retry",),
        (
            Substitution(
                f"{_WAITS}.human.reopen:retry_run",
                "if found.generation < again.generation:",
                "if not _was_retried(found, asked):",
            ),
        ),
    ),
    Fix(
        "withdrawal-lost",
        "new",
        "a refused submit is executed, if NATS has lost its withdrawal in a power failure",
        ("lost_tail",),
        (
            Substitution(
                f"{_RUNS}.lifecycle.withdrawal:Withdrawer._repeat",
                "elif withdrawn.interruptions != self._connection.interruptions:",
                "elif False:",
            ),
        ),
    ),
    Fix(
        "acked-job-stored-again",
        "new",
        "a run stays RUNNING, if NATS has lost its end and the removal of its job in a power failure",
        ("lost_tail",),
        (
            Substitution(
                "pyoco_server.broker.queue.acked_jobs:ack_floors",
                'if not info["num_ack_pending"]:',
                "if False:",
            ),
        ),
    ),
    Fix(
        "checked-before-the-loss-is-known",
        "new",
        "a parked run whose wait NATS has lost is checked before its gateway knows, and then minutes later",
        ("lost_tail",),
        (
            Substitution(
                "pyoco_server.waits.index.wait_feed:WaitFeedReader._became_ready",
                "    for on_filled in self._on_filled:\n        on_filled()\n",
                "",
            ),
        ),
    ),
    Fix(
        "claims-before-it-is-seen",
        "16",
        "a run waits for AckWait, because its worker was killed before a gateway had seen it connected",
        ("takeover",),
        (
            Substitution(
                "pyoco_server.worker.session.presence:Presence.wait_seen", "if longest_sec <= 0:", "if True:"
            ),
        ),
    ),
)

# Nobody has made these mistakes: they show that a scenario without a fix above finds something.
FIXES += (
    Fix(
        "hook-message-acknowledged-first",
        "mutation",
        "a message of a hook is lost when its gateway dies between the ack and the run",
        ("hooks",),
        (
            Substitution(
                "pyoco_server.triggers.hooks.hook_intake:HookIntake._start",
                "    try:\n        await self._receiver.process",
                "    await message.delivery.ack()\n    try:\n        await self._receiver.process",
            ),
        ),
    ),
    Fix(
        "hook-without-its-slot",
        "mutation",
        "two deliveries to a hook that rejects overlaps start a run each",
        ("hooks",),
        (
            Substitution(
                "pyoco_server.triggers.hooks.hook_receiver:HookReceiver._take_slot",
                "return await self._slots.take(hook.tenant_id, hook.owner, run_id, now=self._clock())",
                "return None",
            ),
        ),
    ),
)

BY_NAME: Final = {fix.name: fix for fix in FIXES}
