"""Answers and retries do not depend on a replica that lags."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import kv, stream_reads
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, newest_messages, read_batch
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.errors import WaitConflict, WaitExpired
from pyoco_server.records.runs.run_models import RunStatus, job_of
from pyoco_server.records.waits.wait_models import Actor, Question, WaitState, encode
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.wait_maintenance import WaitMaintenance
from pyoco_server.waits.wait_transitions import expired, reopened
from pyoco_server.worker.ipc.protocol import Outcome
from pyoco_server.worker.session.run_questions import RunQuestions
from tests.support.broker.waits_in_bucket import SeenRuns, WaitsInBucket
from tests.support.running.waiting_runs import WaitingRun, wait_of, waiting_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = Actor(name="ann")


@pytest.fixture
def connection(shared_connection: Connection) -> Connection:
    return shared_connection


class LaggingReplica:
    """Answers every batch read of waits as of now, whatever is written later."""

    def __init__(self, messages: list[StreamMessage], monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0

        async def stale(
            connection: Connection, stream: str, subject: str, *, after: int = 0, **options: Any
        ) -> list[StreamMessage]:
            if stream != f"KV_{connection.config.waits_kv_bucket}":
                return await read_batch(connection, stream, subject, after=after, **options)
            self.reads += 1
            return [message for message in messages if message.sequence > after]

        monkeypatch.setattr(stream_reads, "read_batch", stale)


async def lagging(run: WaitingRun, monkeypatch: pytest.MonkeyPatch) -> LaggingReplica:
    bucket = run.connection.config.waits_kv_bucket
    subject = f"$KV.{bucket}.{run.run_id}.*"
    return LaggingReplica(await read_batch(run.connection, f"KV_{bucket}", subject), monkeypatch)


async def test_a_repeated_resume_gets_its_receipt_and_another_one_is_rejected(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    replica = await lagging(run, monkeypatch)
    answers = AnswerHandler(connection)
    first = await answers.resume(run.run_id, 1, ANYBODY, ANN, decision_id="d1")
    again = await answers.resume(run.run_id, 1, ANYBODY, ANN, decision_id="d1")
    assert (again.wait_id, again.decided_at, again.repeated) == (first.wait_id, first.decided_at, True)
    with pytest.raises(WaitConflict) as caught:
        await answers.resume(run.run_id, 2, ANYBODY, ANN, decision_id="d1")
    assert caught.value.word == "already_decided"
    assert replica.reads


async def test_a_resume_finds_a_wait_that_the_replica_has_not_received(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, suspended=False)
    LaggingReplica([], monkeypatch)
    receipt = await AnswerHandler(connection).resume(run.run_id, 1, ANYBODY, ANN)
    assert receipt.wait_id == run.wait_id


async def test_a_resume_after_the_deadline_says_so(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await lagging(run, monkeypatch)
    await run.expires()
    with pytest.raises(WaitExpired):
        await AnswerHandler(connection).resume(run.run_id, 1, ANYBODY, ANN)


async def test_a_resume_is_ambiguous_when_only_the_leader_knows_the_second_wait(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the answer would go to a question that the person may not have meant."""
    run = await waiting_run(connection, suspended=False)
    await lagging(run, monkeypatch)
    second = wait_of(run.snapshot, "check")
    await WaitStore(connection).create(second)
    with pytest.raises(WaitConflict) as caught:
        await AnswerHandler(connection).resume(run.run_id, 1, ANYBODY, ANN)
    assert caught.value.word == "ambiguous_wait"
    assert await run.states() == ["open"]


async def test_a_retry_reopens_what_only_the_leader_knows_to_be_expired(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    replica = await lagging(run, monkeypatch)
    await run.expires()
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    [awaited] = again.open_waits or []
    stored = await run.wait(awaited.wait_id)
    assert (stored.state, stored.arming) == (WaitState.OPEN, 2)
    # For the replica the first wait is still open: then the run would not have been retried.
    repeated = await retry_run(connection, run.run_id, ANYBODY, ANN)
    assert repeated.open_waits == again.open_waits
    assert replica.reads


async def test_a_second_retry_asks_what_the_first_one_asked(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica knows the wait before that only; asking from there would be asking an old question."""
    run = await waiting_run(connection)
    await run.expires()
    await lagging(run, monkeypatch)
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    [second] = again.open_waits or []
    await run.expires(await run.wait(second.wait_id))
    [third] = (await retry_run(connection, run.run_id, ANYBODY, ANN)).open_waits or []
    stored = await run.wait(third.wait_id)
    assert (stored.state, stored.arming) == (WaitState.OPEN, 3)


async def test_a_worker_waits_for_what_a_retry_has_reopened(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks ask, one question expires and the other one is closed with its run; `retry` asks both again.

    For the replica the closed one is open: a run that waits for that one waits for ever.
    """
    run = await waiting_run(connection, {}, {})
    replica = await lagging(run, monkeypatch)
    await run.expires()
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    _, second = again.open_waits or []
    asked = Question(node=run.waits[1].node, task=second.task, name=second.name, message=second.message)
    questions = RunQuestions(WaitStore(connection), WaitEventLog(connection), job_of(again, None), 3600.0)
    await questions.load()
    await questions.settle(
        Outcome(status=RunStatus.WAITING_HUMAN, questions=encode([asked])), may_continue=False
    )
    assert replica.reads
    assert [(wait.wait_id, wait.state) for wait in questions.awaited] == [(second.wait_id, WaitState.OPEN)]


async def test_all_open_waits_of_a_run_that_has_ended_are_closed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {}, {})
    LaggingReplica([], monkeypatch)
    await run.becomes(status=RunStatus.CANCELLED)
    await Continuations(connection).close_waits(run.run_id)
    assert await run.states() == ["cancelled", "cancelled"]


async def test_waits_from_the_leader_are_the_newest_of_each_in_the_order_of_writing(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {}, {}, {})
    await lagging(run, monkeypatch)
    store = WaitStore(connection)
    first, second, third = (wait.wait_id for wait in run.waits)
    await AnswerHandler(connection).respond(first, Answer(payload=1), ANYBODY, ANN)
    await store._bucket.delete(second, revision=(await run.stored(second)).revision)
    found = await store.of_run_from_leader(run.run_id)
    assert [(wait.record.wait_id, wait.record.state) for wait in found] == [
        (third, WaitState.OPEN),
        (first, WaitState.ANSWERED),
    ]


async def test_a_worker_that_does_not_know_yet_that_it_was_reopened_asks_the_leader(
    connection: Connection,
) -> None:
    """A replica may lag and still show the expired wait."""
    store, events = WaitStore(connection), WaitEventLog(connection)
    job = new_job(flow_name="ask", tag="default")
    asked = Question(node="ask||0", task="ask", name="human", message="?", timeout_sec=60)
    first = await RunQuestions(store, events, job, 60.0).ask(asked)
    stored = await store.get_from_leader(first.wait_id)
    assert stored is not None
    await store.replace(expired(first, at=first.deadline_at), stored.revision)
    questions = RunQuestions(store, events, job, 60.0)
    await questions.load()
    again = reopened(first, at=1.0, deadline_at=first.deadline_at + 60)
    await store.create(again)
    outcome = Outcome(status=RunStatus.WAITING_HUMAN, questions=encode([asked]))
    settled = await questions.settle(outcome, may_continue=True)
    assert settled.status == RunStatus.WAITING_HUMAN
    assert questions.awaited == [again]


class LaggingReplicas:
    """Answer reads of the newest messages as of now, whatever is written later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, known: dict[str, list[StreamMessage]]) -> None:
        self.reads = 0

        async def stale(_: Connection, stream: str, subjects: Sequence[str]) -> list[StreamMessage]:
            self.reads += 1
            return [message for message in known.get(stream, []) if message.subject in subjects]

        monkeypatch.setattr(kv, "newest_messages", stale)

    @classmethod
    async def of(cls, run: WaitingRun, monkeypatch: pytest.MonkeyPatch) -> "LaggingReplicas":
        config = run.connection.config
        known: dict[str, list[StreamMessage]] = {}
        for bucket, key in ((config.waits_kv_bucket, run.wait_id), (config.runs_kv_bucket, run.run_id)):
            stream = f"KV_{bucket}"
            known[stream] = await newest_messages(run.connection, stream, [f"$KV.{bucket}.{key}"])
        return cls(monkeypatch, known)


async def expires_in_maintenance(run: WaitingRun) -> None:
    """Its first deadline is over."""
    waits, runs = WaitsInBucket(run.connection), SeenRuns(run.connection)
    maintenance = WaitMaintenance(run.connection, waits, runs, clock=lambda: run.waits[0].deadline_at)
    await maintenance._expire_some([run.wait_id])


async def test_a_wake_does_not_need_what_the_replica_has_not_received(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1, "default": None})
    replicas = LaggingReplicas(monkeypatch, {})
    await expires_in_maintenance(run)
    assert replicas.reads == 2
    assert (await run.states(), (await run.now()).status) == (["expired"], RunStatus.PENDING)
    assert len(await run.jobs()) == 1


async def test_a_run_that_was_written_since_the_replica_read_it_wakes_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1, "default": None})
    await LaggingReplicas.of(run, monkeypatch)
    await run.becomes(updated_at=1.0)
    await expires_in_maintenance(run)
    assert (await run.states(), (await run.now()).status) == (["expired"], RunStatus.PENDING)
    assert len(await run.jobs()) == 1


async def test_a_deadline_that_was_moved_decides_though_a_replica_has_the_former_one(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection, {"timeout_sec": -1, "default": None})
    await LaggingReplicas.of(run, monkeypatch)
    later = structs.replace(run.waits[0], deadline_at=run.waits[0].deadline_at + 3600)
    await WaitStore(connection).replace(later, (await run.stored()).revision)
    await expires_in_maintenance(run)
    assert (await run.states(), (await run.now()).status) == (["open"], RunStatus.WAITING_HUMAN)
    assert await run.jobs() == []


async def test_an_answer_wins_over_a_replica_that_has_not_received_it(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await LaggingReplicas.of(run, monkeypatch)
    await AnswerHandler(connection).respond(run.wait_id, Answer(payload=1), ANYBODY, ANN)
    await expires_in_maintenance(run)
    assert await run.states() == ["answered"]
    assert len(await run.jobs()) == 1


async def test_runs_that_are_too_large_to_be_read_together_wake_once_each(connection: Connection) -> None:
    """Else a submit would wait behind megabytes of replies."""
    large = [await waiting_run(connection, {"timeout_sec": -1, "default": None}) for _ in range(8)]
    for run in large:
        await run.becomes(error="x" * 250_000)
    bucket = Bucket(connection, connection.config.runs_kv_bucket)
    read = await bucket.get_many([run.run_id for run in large])
    assert 1 <= sum(len(entry.value) for entry in read.values()) // 250_000 < len(large)
    maintenance = WaitMaintenance(connection, WaitsInBucket(connection), SeenRuns(connection))
    await maintenance._expire_some([run.wait_id for run in large])
    for run in large:
        assert (await run.states(), (await run.now()).status) == (["expired"], RunStatus.PENDING)
        assert len(await run.jobs()) == 1
