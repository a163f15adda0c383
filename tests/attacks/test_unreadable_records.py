"""Records of every kind that cannot be read, written with a plain NATS client beside good ones.

None of them stops a feed, a list or a watcher, and no endpoint fails on one: it is a problem with an id, is
logged once, and is counted.
"""

import json
import logging
import random
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import httpx
import msgspec
import nats
import pytest
import pytest_asyncio
from nats.js import JetStreamContext

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.stores.runs.idempotency_keys import IdempotencyKey
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.bulk_models import BulkAction, BulkRecord, BulkState
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus, TaskStatus, new_run_id
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import WaitEvent, WaitEventKind
from pyoco_server.records.workers.wheel_models import Source, WheelAction, WheelActor, WheelEvent
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from tests.support.broker.connections import connected
from tests.support.broker.raw_client import publish_raw
from tests.support.broker.stored_runs import ended, snapshot
from tests.support.broker.stored_waits import a_wait, waiting_run
from tests.support.event_reading import reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.samples.broken_records import DEEP, broken_variants, with_field
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNREADABLE: Final = "ERR-PYOCO-0045"
KEY: Final = "the-key"
RNG: Final = random.Random(16)


def fields_of(record: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(record))
    return found


@dataclass
class Stored:
    """What is in the buckets: the good ids of each kind, and the broken ones with how they are broken."""

    good: dict[str, list[str]] = field(default_factory=dict)
    broken: dict[str, dict[str, str]] = field(default_factory=dict)
    log_lines: list[logging.LogRecord] = field(default_factory=list)

    def note_good(self, kind: str, key: str) -> None:
        self.good.setdefault(kind, []).append(key)

    def note_broken(self, kind: str, key: str, how: str) -> None:
        self.broken.setdefault(kind, {})[key] = how

    @property
    def reported(self) -> Counter[tuple[str, str]]:
        """How often each record was logged as unreadable."""
        return Counter(
            (str(line.__dict__["record_kind"]), str(line.__dict__["record_key"]))
            for line in self.log_lines
            if "record_kind" in line.__dict__
        )


class RecordWriter:
    """Writes records as anybody with a NATS connection can."""

    def __init__(self, js: JetStreamContext, config: NatsBackendConfig, stored: Stored) -> None:
        self._js = js
        self._config = config
        self._stored = stored

    async def publish(self, subject: str, data: bytes) -> int:
        return int((await self._js.publish(subject, data)).seq)

    async def write_all(self) -> None:
        await self._runs()
        await self._waits()
        await self._workers()
        await self._letters()
        await self._logs_and_journals()
        await self._bulk_operations()
        await self._wheels()
        await self._keys_that_are_not_text()
        key = IdempotencyKey(KEY).stored_as
        await self.publish(f"$KV.{self._config.idempotency_kv_bucket}.{key}", b"[" * DEEP)

    async def _runs(self) -> None:
        prefix = f"$KV.{self._config.runs_kv_bucket}."
        waiting, waits = waiting_run()
        for run in (snapshot(), ended(RunStatus.FAILED), waiting):
            self._stored.note_good("run", run.run_id)
            await self.publish(prefix + run.run_id, msgspec.json.encode(run))
        waits_prefix = f"$KV.{self._config.waits_kv_bucket}."
        for wait in waits:
            await self.publish(waits_prefix + wait.wait_id, msgspec.json.encode(wait))
        records = {"a": msgspec.Raw(b"{}")}
        for template in (
            snapshot(status=RunStatus.RUNNING, tasks={"a": TaskStatus.RUNNING}, delivery=DeliveryId(1, 1)),
            ended(RunStatus.FAILED, tasks={"a": TaskStatus.FAILED}, task_records=records),
        ):
            for how, data in broken_variants(fields_of(template), RNG).items():
                run_id = new_run_id()
                self._stored.note_broken("run", run_id, how)
                await self.publish(prefix + run_id, data.replace(template.run_id.encode(), run_id.encode()))

    async def _waits(self) -> None:
        prefix = f"$KV.{self._config.waits_kv_bucket}."
        good = a_wait(self._stored.good["run"][0])
        self._stored.note_good("wait", good.wait_id)
        await self.publish(prefix + good.wait_id, msgspec.json.encode(good))
        for how, data in broken_variants(fields_of(good), RNG, per_field=1).items():
            run, [wait] = waiting_run()
            await self.publish(f"$KV.{self._config.runs_kv_bucket}.{run.run_id}", msgspec.json.encode(run))
            self._stored.note_broken("wait", wait.wait_id, how)
            own = data.replace(good.wait_id.encode(), wait.wait_id.encode())
            await self.publish(prefix + wait.wait_id, own.replace(good.run_id.encode(), run.run_id.encode()))
        event = WaitEvent(
            event_id="e", kind=WaitEventKind.OPENED, wait_id=good.wait_id, run_id=good.run_id, at=time.time()
        )
        for data in broken_variants(fields_of(event), RNG, per_field=1).values():
            await self.publish(f"{self._config.wait_event_subject_prefix}.{good.wait_id}.refused", data)

    async def _workers(self) -> None:
        prefix = f"$KV.{self._config.workers_kv_bucket}."
        now = time.time()
        good = WorkerRecord(
            worker_id="good-worker",
            instance_id="i",
            state=WorkerState.IDLE,
            last_seen_at=now,
            last_heartbeat_at=now,
            tags=["default"],
        )
        self._stored.note_good("worker", good.worker_id)
        await self.publish(prefix + good.worker_id, msgspec.json.encode(good))
        for number, (how, data) in enumerate(broken_variants(fields_of(good), RNG, per_field=1).items()):
            worker_id = f"worker-{number}"
            self._stored.note_broken("worker", worker_id, how)
            own = data.replace(b"good-worker", worker_id.encode())
            await self.publish(prefix + worker_id, own)

    async def _letters(self) -> None:
        subject = f"{self._config.dlq_subject_prefix}.default"
        good = DeadLetter(
            timestamp=time.time(), reason="timeout", error="it took long", run_id=self._stored.good["run"][1]
        )
        self._stored.note_good("dead_letter", str(await self.publish(subject, msgspec.json.encode(good))))
        for how, data in broken_variants(fields_of(good), RNG, per_field=1).items():
            self._stored.note_broken("dead_letter", str(await self.publish(subject, data)), how)

    async def _logs_and_journals(self) -> None:
        run_id = self._stored.good["run"][1]
        line = LogLine(ts=time.time(), stream="stdout", text="a good line")
        for data in broken_variants(fields_of(line), RNG, per_field=1).values():
            await self.publish(f"{self._config.run_log_subject_prefix}.{run_id}", b"[" + data + b"]")
            await self.publish(f"{self._config.journal_subject_prefix}.{run_id}", data)
        await self.publish(f"{self._config.run_log_subject_prefix}.{run_id}", msgspec.json.encode([line]))

    async def _bulk_operations(self) -> None:
        prefix = f"$KV.{self._config.bulk_kv_bucket}."
        now = time.time()
        good = BulkRecord(
            bulk_id=new_run_id(),
            action=BulkAction.CANCEL,
            state=BulkState.COMPLETED,
            query={},
            matched=0,
            created_at=now,
            updated_at=now,
        )
        self._stored.note_good("bulk", good.bulk_id)
        await self.publish(prefix + good.bulk_id, msgspec.json.encode(good))
        template = fields_of(msgspec.structs.replace(good, state=BulkState.RUNNING, matched=1))
        for how, data in broken_variants(template, RNG, per_field=1).items():
            bulk_id = new_run_id()
            self._stored.note_broken("bulk", bulk_id, how)
            await self.publish(prefix + bulk_id, data.replace(good.bulk_id.encode(), bulk_id.encode()))
            # Its items cannot be read either.
            await self.publish(f"{prefix}{bulk_id}.0", data)

    async def _wheels(self) -> None:
        event = WheelEvent(
            event_id=uuid4().hex,
            occurred_at=time.time(),
            action=WheelAction.UPLOAD,
            wheel_name="demo-1-py3-none-any.whl",
            tags=["default"],
            size_bytes=1,
            sha256_hex=None,
            replace=None,
            actor=WheelActor(),
            source=Source(),
        )
        history = f"$KV.{self._config.wheel_history_kv_bucket}."
        self._stored.note_good("wheel_event", event.event_id)
        await self.publish(history + event.event_id, msgspec.json.encode(event))
        info = {"name": "demo-1-py3-none-any.whl", "nuid": "n", "size": 1, "chunks": 1, "headers": {}}
        for number, data in enumerate(broken_variants(fields_of(event), RNG, per_field=1).values()):
            await self.publish(f"{history}broken{number}", data)
        for number, data in enumerate(broken_variants(info, RNG).values()):
            name = urlsafe_b64encode(f"demo-{number}.whl".encode()).decode()
            await self.publish(f"$O.{self._config.wheel_object_store_bucket}.M.{name}", data)

    async def _keys_that_are_not_text(self) -> None:
        config = self._config
        buckets = (
            config.runs_kv_bucket,
            config.workers_kv_bucket,
            config.bulk_kv_bucket,
            config.wheel_history_kv_bucket,
            f"{config.waits_kv_bucket}.a",
            f"{config.auth_kv_bucket}.key",
        )
        subjects = [f"$KV.{bucket}." for bucket in buckets]
        subjects += [f"{config.dlq_subject_prefix}.", f"$O.{config.wheel_object_store_bucket}.M."]
        for subject in subjects:
            await publish_raw(config.nats_url, subject.encode() + b"\xff\xfe", b"{}")
        run = snapshot()
        key = f"$KV.{config.runs_kv_bucket}.{run.run_id}".encode()
        head = b"NATS/1.0 404 No Messages\r\nKV-Operation: \xff\r\nStatus: 404\r\n\r\n"
        await publish_raw(config.nats_url, key, msgspec.json.encode(run), head)
        self._stored.note_good("run", run.run_id)


@contextmanager
def captured_logs() -> Iterator[list[logging.LogRecord]]:
    found: list[logging.LogRecord] = []

    class Capture(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Capture()
    logging.getLogger("pyoco_server").addHandler(handler)
    try:
        yield found
    finally:
        logging.getLogger("pyoco_server").removeHandler(handler)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(shared_config: NatsBackendConfig) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(shared_config.nats_url)
    yield client.jetstream()
    await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stored(shared_config: NatsBackendConfig, plain: JetStreamContext) -> Stored:
    """Everything that is written before the gateway starts, so with an empty index."""
    found = Stored()
    async with connected(shared_config):
        await RecordWriter(plain, shared_config, found).write_all()
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_config: NatsBackendConfig, stored: Stored) -> AsyncIterator[RunningGateway]:
    with captured_logs() as stored.log_lines:
        async with running_gateway(shared_config) as running:
            yield running


def failures(responses: list[httpx.Response]) -> list[str]:
    return [
        f"{each.request.method} {each.request.url.path}: {each.status_code} {each.text[:200]}"
        for each in responses
        if each.status_code >= 500
    ]


def is_problem(response: httpx.Response) -> bool:
    return response.status_code == 409 and response.json()["err_id"] == UNREADABLE


async def is_ready(gateway: RunningGateway) -> None:
    async def ready() -> bool:
        return (await gateway.http.get("/health", params={"ready": 1})).is_success

    await eventually(ready, describe="the gateway is ready")


async def test_a_gateway_with_an_empty_index_becomes_ready_and_lists_the_good_records(
    gateway: RunningGateway, stored: Stored
) -> None:
    await is_ready(gateway)
    runs = (await gateway.http.get("/runs", params={"limit": 200})).json()
    assert set(stored.good["run"]) <= {run["run_id"] for run in runs}
    snapshots = await gateway.http.get("/runs", params={"limit": 200, "include": "full"})
    assert snapshots.status_code == 200, snapshots.text
    waits = (await gateway.http.get("/waits", params={"limit": 200})).json()
    assert set(stored.good["wait"]) <= {wait["wait_id"] for wait in waits["items"]}
    workers = (await gateway.http.get("/workers", params={"scope": "all", "limit": 500})).json()
    assert set(stored.good["worker"]) <= {worker["worker_id"] for worker in workers}
    letters = (await gateway.http.get("/dlq", params={"limit": 200})).json()
    assert set(stored.good["dead_letter"]) <= {str(letter["seq"]) for letter in letters["items"]}
    operations = (await gateway.http.get("/bulk")).json()
    assert set(stored.good["bulk"]) <= {record["bulk_id"] for record in operations["items"]}
    history = (await gateway.http.get("/wheels/history")).json()
    assert set(stored.good["wheel_event"]) <= {event["event_id"] for event in history}
    logs = (await gateway.http.get(f"/runs/{stored.good['run'][1]}/logs")).json()
    assert "a good line" in [line["text"] for line in logs["lines"]]
    for path in ("/metrics", "/overview", "/wheels"):
        response = await gateway.http.get(path)
        assert response.status_code == 200, response.text


async def test_no_endpoint_fails_on_a_run_that_cannot_be_read(
    gateway: RunningGateway, stored: Stored
) -> None:
    await is_ready(gateway)
    http = gateway.http
    for run_id, how in stored.broken["run"].items():
        read = await http.get(f"/runs/{run_id}", params={"include": "records"})
        assert read.status_code == 200 or is_problem(read), f"{how}: {read.status_code} {read.text}"
        responses = [
            await http.get(f"/runs/{run_id}/tasks"),
            await http.get(f"/runs/{run_id}/logs"),
            await http.get(f"/runs/{run_id}/explain"),
            await http.get(f"/runs/{run_id}/watch", params={"timeout_sec": 1}) if is_problem(read) else read,
            await http.get("/waits", params={"run_id": run_id}),
            await http.get("/dlq", params={"run_id": run_id}),
            await http.post(f"/runs/{run_id}/retry"),
            await http.post("/resume", json={"run_id": run_id, "payload": {}}),
            await http.post(f"/runs/{run_id}/rerun", json={"mode": "failed"}),
            await http.post(f"/runs/{run_id}/cancel"),
        ]
        assert not failures(responses), how
        if is_problem(read):
            refused = [each for each in responses if each.request.url.path.startswith(f"/runs/{run_id}")]
            assert all(map(is_problem, refused)), [each.text for each in refused]


async def test_no_endpoint_fails_on_other_records_that_cannot_be_read(
    gateway: RunningGateway, stored: Stored
) -> None:
    http = gateway.http
    responses: list[httpx.Response] = []
    problems: Counter[str] = Counter()
    for wait_id in stored.broken["wait"]:
        responses.append(await http.get(f"/waits/{wait_id}"))
        problems["wait"] += is_problem(responses[-1])
        responses.append(await http.post(f"/waits/{wait_id}/respond", json={"payload": {}}))
        responses.append(await http.get(f"/runs/{wait_id.partition('.')[0]}/explain"))
    responses.append(await http.get(f"/waits/{stored.good['wait'][0]}"))
    for worker_id in stored.broken["worker"]:
        responses.append(await http.get(f"/workers/{worker_id}"))
        problems["worker"] += is_problem(responses[-1])
        responses.append(await http.patch(f"/workers/{worker_id}", json={"paused": True}))
    for bulk_id in stored.broken["bulk"]:
        responses.append(await http.get(f"/bulk/{bulk_id}"))
        problems["bulk"] += is_problem(responses[-1])
        responses.append(await http.post(f"/bulk/{bulk_id}/stop"))
    for seq in stored.broken["dead_letter"]:
        responses.append(await http.get(f"/dlq/{seq}"))
        responses.append(await http.post(f"/dlq/{seq}/replay"))
    for path in ("/bulk/cancel", "/bulk/rerun", "/dlq/replay", "/dlq/delete"):
        responses.append(await http.post(path, json={"dry_run": True}))
    assert not failures(responses)
    assert min(problems[kind] for kind in ("wait", "worker", "bulk")) > 20


async def submitted_with_key(gateway: RunningGateway) -> httpx.Response:
    return await gateway.http.post("/runs", json={"flow_name": "noop"}, headers={"Idempotency-Key": KEY})


async def test_a_key_whose_record_cannot_be_read_refuses_its_request(gateway: RunningGateway) -> None:
    assert is_problem(await submitted_with_key(gateway))


async def test_watchers_go_on(
    gateway: RunningGateway, shared_config: NatsBackendConfig, plain: JetStreamContext
) -> None:
    await is_ready(gateway)
    prefix = f"$KV.{shared_config.runs_kv_bucket}."
    bad, good = snapshot(flow_name="watched"), snapshot(flow_name="watched")
    await plain.publish(prefix + bad.run_id, msgspec.json.encode(bad))
    async with (
        reading_events(gateway.http, "/runs/watch", params={"flow": "watched"}) as watched_list,
        reading_events(gateway.http, f"/runs/{bad.run_id}/watch") as watched_run,
    ):
        await eventually(lambda: watched_run.events, describe="the run is watched")
        await plain.publish(prefix + bad.run_id, with_field(fields_of(bad), "params", b"[" * DEEP))
        await publish_raw(shared_config.nats_url, prefix.encode() + b"\xff", b"{}")
        await plain.publish(prefix + good.run_id, msgspec.json.encode(good))
        await eventually(
            lambda: good.run_id.encode() in watched_list.raw, describe="the list has the good run"
        )
        # The client connects again, and gets the problem.
        await watched_run.is_over()
    assert is_problem(await gateway.http.get(f"/runs/{bad.run_id}/watch"))


async def test_a_record_that_is_written_again_counts_no_more(
    gateway: RunningGateway, shared_config: NatsBackendConfig, plain: JetStreamContext
) -> None:
    subject = f"$KV.{shared_config.runs_kv_bucket}."
    run = snapshot()
    known = gateway.inside.connection.unreadable

    async def is_known(expected: bool) -> bool:
        await gateway.inside.listing.lists.caught_up()
        return (known.find(RecordKind.RUN, run.run_id) is not None) is expected

    await plain.publish(subject + run.run_id, b"{")
    await eventually(lambda: is_known(True), describe="the run is unreadable")
    await plain.publish(subject + run.run_id, msgspec.json.encode(run))
    await eventually(lambda: is_known(False), describe="the run is readable")
    assert (await gateway.http.get(f"/runs/{run.run_id}")).status_code == 200


async def test_a_run_with_a_status_of_a_newer_version_is_shown(
    gateway: RunningGateway, shared_config: NatsBackendConfig, plain: JetStreamContext
) -> None:
    run = snapshot()
    newer = with_field(fields_of(run), "status", b'"SLEEPING"')
    await plain.publish(f"$KV.{shared_config.runs_kv_bucket}.{run.run_id}", newer)
    http = gateway.http
    assert (await http.get(f"/runs/{run.run_id}")).json()["status"] == "SLEEPING"
    listed = (await http.get("/runs", params={"limit": 200})).json()
    assert {each["run_id"]: each["status"] for each in listed}[run.run_id] == "SLEEPING"
    explained = (await http.get(f"/runs/{run.run_id}/explain")).json()
    assert "status_of_newer_version" in [finding["code"] for finding in explained["findings"]]
    cancelled = await http.post(f"/runs/{run.run_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["err_id"]) == (409, "ERR-PYOCO-0025")
    metrics = (await http.get("/metrics")).text
    assert 'pyoco_runs_total{status="OTHER"} 1' in metrics


async def test_unreadable_records_are_counted_and_logged_once(
    gateway: RunningGateway, stored: Stored
) -> None:
    await is_ready(gateway)
    http = gateway.http
    for _ in range(3):
        for path in ("/workers", "/dlq?limit=200", "/bulk", "/wheels", "/wheels/history"):
            assert (await http.get(path)).status_code == 200
        await http.get(f"/runs/{stored.good['run'][1]}/logs")
        await http.get(f"/waits/{stored.good['wait'][0]}")
        await http.get(f"/runs/{next(iter(stored.broken['run']))}")
        await submitted_with_key(gateway)
        await http.post(f"/runs/{stored.good['run'][1]}/rerun", json={"mode": "failed"})
    health = (await gateway.http.get("/health")).json()["unreadable"]
    kinds = {"run", "wait", "wait_event", "worker", "dead_letter", "log", "journal", "bulk", "wheel_event"}
    assert kinds | {"wheel", "idempotency_key"} <= set(health)
    metrics = (await gateway.http.get("/metrics")).text
    for kind, count in health.items():
        assert f'pyoco_unreadable_records{{kind="{kind}"}} {count}' in metrics
    overview = (await gateway.http.get("/overview")).json()["unreadable"]
    assert overview["total"] == sum(health.values())
    assert {"kind", "key", "revision", "problem", "found_at"} <= set(overview["newest"][0])
    assert [key for key, times in stored.reported.items() if times != 1] == []
    other = Counter(
        (line.getMessage(), line.__dict__.get("run_id"))
        for line in stored.log_lines
        if line.levelno >= logging.WARNING
    )
    assert [(line, times) for line, times in other.items() if times > 1] == []


async def test_a_restarted_gateway_knows_them_without_logging_them_again(config: NatsBackendConfig) -> None:
    """Its index is kept: the feed reads only what was written since."""
    run = snapshot()
    for start in range(2):
        with captured_logs() as lines:
            async with running_gateway(config) as gateway:
                if not start:
                    connection = gateway.inside.connection
                    await publish_acked(connection, f"$KV.{config.runs_kv_bucket}.{run.run_id}", b"{")
                await is_ready(gateway)
                await gateway.inside.listing.lists.caught_up()
                assert (await gateway.http.get("/health")).json()["unreadable"] == {"run": 1}
        assert [line.__dict__["record_key"] for line in lines if "record_key" in line.__dict__] == (
            [] if start else [run.run_id]
        )
