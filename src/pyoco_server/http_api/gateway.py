"""What the routes work with: one NATS connection and the stores on it, for the life of the app."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from pyoco_server.auth.known_keys import KnownKeys
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.resources import ensure_resources
from pyoco_server.broker.stores.bulk_records import BulkRecords
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.broker.stores.run_hints import RunWatches
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.broker.stores.wheel_history import WheelHistory
from pyoco_server.broker.stores.worker_registry import WorkerRegistry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.cursor_key import SharedCursors
from pyoco_server.http_api.metrics.run_timings import RunTimings
from pyoco_server.http_api.middleware.constant_time_404 import EvenTimes
from pyoco_server.http_api.middleware.request_counts import RequestCounts
from pyoco_server.http_api.responses.shared_responses import KeptAnswers
from pyoco_server.human.answers.answering import Answers
from pyoco_server.human.inbox.inbox_hub import Inbox
from pyoco_server.human.inbox.wait_feed import DecidedCounts, WaitReader, feed_of
from pyoco_server.human.inbox.wait_index import WaitIndex
from pyoco_server.human.inbox.wait_lists import WaitLists
from pyoco_server.human.notifications.notifier import Notifications
from pyoco_server.human.wait_maintenance import WaitCaretaker
from pyoco_server.runs.bulk.bulk_operations import BulkStarter
from pyoco_server.runs.bulk.bulk_runner import BulkRunner
from pyoco_server.runs.explain.explainer import Explainer
from pyoco_server.runs.index.run_feed_reader import RunReader
from pyoco_server.runs.index.run_index import RunIndex
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.sweeper import Sweeper
from pyoco_server.runs.watch.run_hub import RunChanges
from pyoco_server.wheels.wheel_registry import WheelRegistry

# How many wheels are taken at the same time; each needs a temporary file.
_UPLOADS = 4


@dataclass(frozen=True, slots=True)
class Gateway:
    config: NatsBackendConfig
    connection: Connection
    keys: KnownKeys
    even_times: EvenTimes
    runs: RunStore
    logs: RunLogs
    watches: RunWatches
    feed: BucketFeed
    # What the feed has read: for lists, and for those who watch.
    index_file: RunIndex
    index: RunLists
    changes: RunChanges
    cursors: SharedCursors
    workers: WorkerRegistry
    submitter: Submitter
    sweeper: Sweeper
    explainer: Explainer
    letters: DeadLetters
    bulk: BulkRunner
    bulk_records: BulkRecords
    bulk_starter: BulkStarter
    wheels: WheelRegistry
    wheel_history: WheelHistory
    uploads: asyncio.Semaphore
    # Waits for people: at rest, as lists, to be followed, and who decides them.
    wait_store: WaitStore
    wait_events: WaitEvents
    wait_index: WaitIndex
    wait_feed: BucketFeed
    waits: WaitLists
    inbox: Inbox
    answers: Answers
    caretaker: WaitCaretaker
    notifications: Notifications
    # What is counted here for the metrics: requests, and how runs fared.
    requests: RequestCounts
    timings: RunTimings
    decided_waits: DecidedCounts
    # What many open pages ask again and again.
    overviews: KeptAnswers
    # Set when this gateway is about to end: answers that would stay open end themselves.
    stopping: asyncio.Event

    @classmethod
    def create(cls, config: NatsBackendConfig) -> "Gateway":
        connection = Connection(config, name="pyoco-server:http")
        connection.add_hook(lambda: ensure_resources(connection))
        submitter, bulk_records = Submitter(connection), BulkRecords(connection)
        changes, timings = RunChanges(), RunTimings()
        index_file, open_runs = RunIndex(Path(config.index_dir)), OpenRuns()
        changes.on_begin(lambda: timings.begin(open_runs.begun))
        changes.on_changes(timings.take)
        feed = BucketFeed(
            connection,
            RunReader(config, index_file, open_runs, changes),
            bucket=config.runs_kv_bucket,
            of="runs",
        )
        index = RunLists(index_file, feed)
        changes.on_live(feed.hurry)
        wait_index, inbox, decided_waits = WaitIndex(Path(config.index_dir)), Inbox(), DecidedCounts()
        wait_reader = WaitReader(config.waits_kv_bucket, wait_index, inbox, decided_waits)
        wait_feed = feed_of(connection, wait_reader)
        caretaker = WaitCaretaker(connection, wait_index, open_runs)
        wait_reader.on_changes(caretaker.poke)
        return cls(
            config=config,
            connection=connection,
            keys=KnownKeys(connection),
            even_times=EvenTimes(),
            runs=RunStore(connection),
            logs=RunLogs(connection),
            watches=RunWatches(connection),
            feed=feed,
            index_file=index_file,
            index=index,
            changes=changes,
            cursors=SharedCursors(connection),
            workers=WorkerRegistry(connection),
            submitter=submitter,
            sweeper=Sweeper(connection, index, open_runs),
            explainer=Explainer(connection, index),
            letters=DeadLetters(connection),
            bulk=BulkRunner(connection, submitter),
            bulk_records=bulk_records,
            bulk_starter=BulkStarter(connection, bulk_records, submitter.withdrawer),
            wheels=WheelRegistry(connection),
            wheel_history=WheelHistory(connection),
            uploads=asyncio.Semaphore(_UPLOADS),
            wait_store=WaitStore(connection),
            wait_events=WaitEvents(connection),
            wait_index=wait_index,
            wait_feed=wait_feed,
            waits=WaitLists(wait_index, wait_feed),
            inbox=inbox,
            answers=Answers(connection),
            caretaker=caretaker,
            notifications=Notifications(connection),
            requests=RequestCounts(),
            timings=timings,
            decided_waits=decided_waits,
            overviews=KeptAnswers(),
            stopping=asyncio.Event(),
        )

    async def start(self) -> None:
        """Begin to connect; a gateway also starts when NATS is not there yet."""
        await self.index_file.start()
        await self.wait_index.start()
        await self.connection.start()
        if self.config.http_auth_mode == "api_key":
            await self.keys.start()
        await self.feed.start()
        await self.wait_feed.start()
        await self.submitter.start()
        await self.sweeper.start()
        await self.caretaker.start()
        await self.bulk.start()
        await self.wheels.start()
        await self.notifications.start()

    async def close(self) -> None:
        self.stopping.set()
        await self.notifications.close()
        await self.answers.close()
        await self.wheels.close()
        await self.bulk.close()
        await self.caretaker.close()
        await self.sweeper.close()
        await self.submitter.close()
        await self.wait_feed.close()
        await self.feed.close()
        await self.keys.close()
        self.even_times.close()
        await self.connection.close()
        await self.wait_index.close()
        await self.index_file.close()


def gateway_of(request: Request) -> Gateway:
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway
