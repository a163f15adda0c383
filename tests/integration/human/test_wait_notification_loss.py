"""No event of a wait is lost when a process dies or a write fails."""

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, job_of
from pyoco_server.records.waits.wait_models import Actor, Question, WaitEvent
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.worker.session.run_questions import RunQuestions
from tests.integration.waits.test_wait_expiry import maintaining
from tests.support.broker.stored_runs import snapshot
from tests.support.clocks import Clock
from tests.support.running.gateway import running_gateway
from tests.support.running.notifying import all_delivered, notified, running_notifier, wait_for_requests
from tests.support.running.waiting_runs import wait_events_of, waiting_run
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, webhook_receiver

ANN = Actor(name="ann")
ONE = Answer(payload=1)
QUESTION = Question(node="approve||1", task="approve", name="human", message="May I?")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.1)


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1)


@pytest.fixture
def connection(empty_connection: Connection) -> Connection:
    return empty_connection


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest.fixture
def notifying(config: NatsBackendConfig, receiver: WebhookReceiver) -> NatsBackendConfig:
    return notified(config, receiver)


class Killed(BaseException):
    """In place of SIGKILL: nothing handles it."""


async def running_run(connection: Connection) -> RunSnapshot:
    """A run that has asked nothing yet."""
    run = snapshot(status=RunStatus.RUNNING, attempt=1)
    await RunStore(connection).create(run)
    return run


def asking(connection: Connection, run: RunSnapshot) -> RunQuestions:
    """The part of a worker that asks."""
    job = job_of(run, None)
    return RunQuestions(WaitStore(connection), WaitEventLog(connection), job, timeout_sec=3600.0)


async def ask_and_die(connection: Connection, run: RunSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed after it has stored a wait, and before it publishes the event."""

    async def dies(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(WaitEventLog, "publish", dies)
        with pytest.raises(Killed):
            await asking(connection, run).ask(QUESTION)
    assert len(await WaitStore(connection).of_run_from_leader(run.run_id)) == 1


async def test_the_next_owner_reports_the_question_of_a_worker_that_died_while_asking(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long after its death: the event must not have been dropped meanwhile, nor count as a duplicate."""
    async with running_notifier(notifying) as connection:
        run = await running_run(connection)
        with monkeypatch.context() as patched:
            # Its own clock says that all this happened ten minutes ago.
            patched.setattr(
                "pyoco_server.worker.session.run_questions.time",
                SimpleNamespace(time=Clock(time.time() - 600)),
            )
            await ask_and_die(connection, run, patched)
        await all_delivered(connection)
        wait = await asking(connection, run).ask(QUESTION)
        [request] = await wait_for_requests(receiver)
        await all_delivered(connection)
    assert request.event_id == f"{wait.wait_id}.opened"
    assert request.body["wait"]["created_at"] == wait.created_at


async def test_a_gateway_reports_the_question_of_a_worker_that_died_while_asking(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other worker is there to come to the question again."""
    async with running_gateway(notifying) as gateway:
        connection = gateway.inside.connection
        run = await running_run(connection)
        await ask_and_die(connection, run, monkeypatch)
        [request] = await wait_for_requests(receiver)
        [wait] = (await gateway.http.get("/waits")).json()["items"]
    assert request.event_id == f"{wait['wait_id']}.opened"


class FailingEvents:
    """The stream of events refuses what is published, as often as `failures` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        publish = WaitEventLog.publish
        self.failures = 0

        async def failing(events: WaitEventLog, event: WaitEvent) -> None:
            if self.failures:
                self.failures -= 1
                raise NatsUnavailable("the stream of events elects its leader")
            await publish(events, event)

        monkeypatch.setattr(WaitEventLog, "publish", failing)


@pytest.mark.parametrize("kind", ["answered", "expired", "cancelled"])
async def test_an_outcome_is_reported_although_its_first_publish_failed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The run has ended when the event is published."""
    events = FailingEvents(monkeypatch)
    run = await waiting_run(connection)
    events.failures = 1
    if kind == "answered":
        await AnswerHandler(connection).respond(run.wait_id, ONE, ANYBODY, ANN)
        await run.becomes(status=RunStatus.COMPLETED, open_waits=[])
    elif kind == "expired":
        await run.expires()
    else:
        await run.becomes(status=RunStatus.CANCELLED, open_waits=[])
        await Continuations(connection).close_waits(run.run_id)
    assert events.failures == 0
    assert kind not in await run.kinds()
    async with maintaining(connection) as maintained:
        await maintained.scans()
        await maintained.scans()
    [event] = [event for event in await run.events() if event.kind == kind]
    wait = await run.wait()
    assert (event.at, event.actor) == (wait.decided_at, wait.decided_by)


async def test_the_actor_of_a_retry_is_reported_after_a_failed_publish(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await waiting_run(connection)
    await run.expires()
    events = FailingEvents(monkeypatch)
    events.failures = 1
    again = await retry_run(connection, run.run_id, ANYBODY, ANN)
    [awaited] = again.open_waits or []
    async with maintaining(connection) as maintained:
        await maintained.scans()
        await maintained.scans()
    [event] = await WaitEventLog(connection).of_wait(awaited.wait_id)
    assert (event.kind, event.actor) == ("opened", ANN)


async def test_an_answer_between_asking_and_reporting_keeps_the_order(
    notifying: NatsBackendConfig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_notifier(notifying) as connection:
        run = await running_run(connection)
        await ask_and_die(connection, run, monkeypatch)
        [wait] = await WaitStore(connection).of_run_from_leader(run.run_id)
        await AnswerHandler(connection).respond(wait.record.wait_id, ONE, ANYBODY, ANN)
        kinds = [event.kind.value for event in await wait_events_of(connection, run.run_id)]
        await wait_for_requests(receiver, times=2)
    assert kinds == ["opened", "answered"]
    bodies = {request.body["event"]["kind"]: request.body["event"] for request in receiver.requests}
    assert (bodies["opened"]["by"], bodies["answered"]["by"]) == (None, "ann")


async def test_a_question_whose_acknowledgement_was_lost_is_reported_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker repeats the write, and finds its own."""
    run = await running_run(connection)
    create = WaitStore.create
    questions = asking(connection, run)

    async def unacknowledged(*args: Any, **kwargs: Any) -> int:
        await create(*args, **kwargs)
        raise NatsUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(WaitStore, "create", unacknowledged)
        with pytest.raises(NatsUnavailable):
            await questions.ask(QUESTION)
    wait = await questions.ask(QUESTION)
    assert [event.kind.value for event in await WaitEventLog(connection).of_wait(wait.wait_id)] == ["opened"]


async def test_asking_takes_two_writes_and_no_read(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await running_run(connection)
    requests: list[str] = []
    request = Connection.request

    async def counted(self: Connection, subject: str, *args: Any, **kwargs: Any) -> Any:
        requests.append(subject)
        return await request(self, subject, *args, **kwargs)

    monkeypatch.setattr(Connection, "request", counted)
    wait = await asking(connection, run).ask(QUESTION)
    assert sorted(requests) == [f"$KV.pyoco_waits.{wait.wait_id}", f"pyoco.wait_events.{wait.wait_id}.opened"]


async def test_a_run_waits_although_the_stream_of_events_rejects_everything(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingEvents(monkeypatch).failures = 1_000_000
    run = await running_run(connection)
    wait = await asking(connection, run).ask(QUESTION)

    async def stored() -> bool:
        return await WaitStore(connection).get_from_leader(wait.wait_id) is not None

    await eventually(stored, describe="the wait is stored")
