"""Records what happens in a world, checks each write, and gathers the evidence at the end."""

from functools import partial
from typing import Final

import msgspec

from pyoco_server.broker.queue.work_queue import head_of
from pyoco_server.errors import UnreadableRecord
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.bulk_models import BulkRecord
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.records.schedules.schedule_models import decode_schedule
from pyoco_server.records.triggers.hook_models import HookOverlap, decode_hook
from pyoco_server.records.triggers.workflow_event_models import decode_retry_job
from pyoco_server.records.value_types import is_run_id
from pyoco_server.records.waits.signal_models import decode_mailbox
from pyoco_server.records.waits.wait_models import decode_outbox, decode_wait, decode_wait_event
from pyoco_server.runs.index.search.run_filter import RunFilter
from tests.simulation.faults import WorldFault
from tests.simulation.invariants.checks import InvariantBroken
from tests.simulation.invariants.evidence import (
    Evidence,
    JournalWrite,
    LetterWrite,
    RetryWrite,
    RunWrite,
    WaitWrite,
)
from tests.simulation.invariants.run_invariants import check_run_write
from tests.simulation.jetstream import headers
from tests.simulation.jetstream.stream import Stored, Stream
from tests.simulation.node import GatewayNode, NodeCrashed
from tests.simulation.users import Users
from tests.simulation.world import World

_MANY: Final = 1000
_decode_run = record_decoder(RunSnapshot)
_decode_letter = record_decoder(DeadLetter)
_decode_bulk = record_decoder(BulkRecord)
_decode_text = msgspec.json.Decoder(str).decode
_decode_entry = msgspec.msgpack.Decoder(JournalEntry).decode


class Recorder:
    """From the start of a world on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._config = world.gateways[0].config
        self._evidence = Evidence()
        # What is stored of each run, with its revision.
        self._runs: dict[str, tuple[int, RunSnapshot]] = {}
        self._by_stream = {
            f"KV_{self._config.runs_kv_bucket}": self._on_run,
            f"KV_{self._config.waits_kv_bucket}": self._on_wait,
            f"KV_{self._config.event_retries_kv_bucket}": self._on_retry_job,
            self._config.journal_stream: self._on_journal,
            self._config.event_intake_stream: self._on_hook_message,
            self._config.dlq_stream: self._on_letter,
        }
        world.on_write.append(self._on_write)

    def _on_write(self, stream: Stream, stored: Stored) -> None:
        if (on_write := self._by_stream.get(stream.name)) is not None:
            on_write(stored)

    def _on_run(self, stored: Stored) -> None:
        run_id = _key(stored)
        if not is_run_id(run_id) or "probe" in stored.subject:
            return
        # A server that has lost its newest messages uses their sequences again.
        self._runs = {key: known for key, known in self._runs.items() if known[0] < stored.sequence}
        before = self._runs.pop(run_id, None)
        try:
            after = None if _is_marker(stored) else _decode_run(stored.data)
        except UnreadableRecord as error:
            raise InvariantBroken(f"run {run_id} is stored in a form that cannot be read: {error}") from None
        if after is not None:
            self._runs[run_id] = stored.sequence, after
        write = RunWrite(run_id=run_id, revision=stored.sequence, at=self._world.now, snapshot=after)
        self._evidence.run_writes.append(write)
        stored_before = None if before is None else before[1]
        for problem in check_run_write(run_id, stored_before, after, lost_writes=self._has_lost_writes):
            raise InvariantBroken(problem)

    @property
    def _has_lost_writes(self) -> bool:
        return any(each.fault is WorldFault.POWER_FAILURE for each in self._world.faults.log)

    def _on_wait(self, stored: Stored) -> None:
        # A server that has lost its newest messages uses their sequences again.
        writes = [each for each in self._evidence.wait_writes if each.revision < stored.sequence]
        if not _is_marker(stored):
            record = decode_wait(stored.data)
            writes.append(
                WaitWrite(revision=stored.sequence, at=self._world.now, wall=self._world.wall, record=record)
            )
        self._evidence.wait_writes = writes

    def _on_retry_job(self, stored: Stored) -> None:
        if not _is_marker(stored) and ".j." in stored.subject:
            job = decode_retry_job(stored.data)
            self._evidence.retry_writes.append(RetryWrite(wall=self._world.wall, job=job))

    def _on_journal(self, stored: Stored) -> None:
        head = headers.decoded(stored.head) if stored.head else {}
        run_id = _key(stored)
        if is_run_id(run_id) and "Pyoco-Kind" not in head and ".probe." not in stored.subject:
            entry = _decode_entry(stored.data)
            if "Pyoco-Copied" in head:
                entry.attempt = 0
            self._evidence.journal.append(JournalWrite(run_id=run_id, at=self._world.now, entry=entry))

    def _on_letter(self, stored: Stored) -> None:
        letter = _decode_letter(stored.data)
        self._evidence.letter_writes.append(LetterWrite(at=self._world.now, letter=letter))

    def _on_hook_message(self, stored: Stored) -> None:
        self._evidence.hook_messages.add(_decode_text(stored.data))

    async def evidence(self, users: Users) -> Evidence:
        """When everything has settled."""
        world, config, found = self._world, self._config, self._evidence
        found.now = world.wall
        found.lost_writes = self._has_lost_writes
        found.executions = world.executions
        found.requests, found.followed, found.purged = users.requests, users.followed, users.purged
        runs = self._values(config.runs_kv_bucket)
        found.runs = {key: _decode_run(data) for key, data in runs.items() if is_run_id(key)}
        waits = self._values(config.waits_kv_bucket)
        found.waits = {key: decode_wait(data) for key, data in waits.items()}
        found.with_outbox = {key for key, data in waits.items() if decode_outbox(data)}
        found.wait_events = [
            decode_wait_event(each.data) for each in self._messages(config.wait_event_stream)
        ]
        found.retention_sec = config.run_retention_sec
        found.schedules = [
            decode_schedule(each) for each in self._values(config.schedules_kv_bucket).values()
        ]
        found.single_hooks = {
            hook.hook_id
            for key, data in self._values(config.triggers_kv_bucket).items()
            if key.startswith("h.") and (hook := decode_hook(data)).overlap is not HookOverlap.ALLOW
        }
        found.waiting_messages = {
            _decode_text(each.data) for each in self._messages(config.event_intake_stream)
        }
        boxes = self._values(config.signals_kv_bucket)
        found.mailboxes = {key: decode_mailbox(data) for key, data in boxes.items()}
        found.letters = [_decode_letter(each.data) for each in self._messages(config.dlq_stream)]
        found.queued = [head_of(each.data).run_id for each in self._messages(config.work_stream)]
        bulk = {key: data for key, data in self._values(config.bulk_kv_bucket).items() if is_run_id(key)}
        found.bulk = {key: _decode_bulk(data) for key, data in bulk.items()}
        for node in world.gateways:
            try:
                await node.call(partial(self._read_lists, node))
            except NodeCrashed:
                raise InvariantBroken(f"{node.name} does not run after everything has settled") from None
        return found

    async def _read_lists(self, node: GatewayNode, gateway: Gateway) -> None:
        lists = gateway.listing.lists
        listed = await lists.ids(RunFilter(), limit=_MANY)
        self._evidence.listed_runs[node.name] = await lists.statuses_of(listed)
        if "waits" in node.services:
            await gateway.waits.lists.caught_up()
            self._evidence.open_waits[node.name] = set(await gateway.waits.index.open_after("", _MANY))

    def _messages(self, stream: str) -> list[Stored]:
        return [
            each
            for each in self._world.server.streams[stream].messages.values()
            if ".probe." not in each.subject
        ]

    def _values(self, bucket: str) -> dict[str, bytes]:
        stream = f"KV_{bucket}"
        return {_key(each, bucket): each.data for each in self._messages(stream) if not _is_marker(each)}


def _key(stored: Stored, bucket: str = "") -> str:
    if bucket:
        return stored.subject.removeprefix(f"$KV.{bucket}.")
    return stored.subject.rpartition(".")[2]


def _is_marker(stored: Stored) -> bool:
    return bool(stored.head) and "KV-Operation" in headers.decoded(stored.head)
