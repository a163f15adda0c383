"""A client that submits, reads, cancels and reruns runs over NATS; it needs the NATS rights of a gateway.

The same rules as over HTTP, because it is the same code: a run is stored and queued, or not at all. What
needs the gateway's read models (lists, watches, waits) is in the HTTP client.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec
from msgspec import UNSET

from pyoco_server.aio.background import Backoff
from pyoco_server.api.run_types import (
    RerunRequest,
    RunSubmitRequest,
    RunSubmitYamlFields,
    public_snapshot,
)
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.server_clock import ServerClock
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.trusted_records import trust_nothing_if_empty
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.catalogue.flow_directory import FlowDirectory
from pyoco_server.catalogue.submit_checks import SubmitChecks
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus, encode
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, keyed_command, keyed_submission
from pyoco_server.runs.lifecycle.requested_start import AT_ONCE, RequestedStart, requested_start
from pyoco_server.runs.lifecycle.rerun import RequestedRerun, params_changed, rerun_job
from pyoco_server.runs.lifecycle.stored_job import whole_params
from pyoco_server.runs.lifecycle.submission import Submitter, new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, find_run
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow

T = TypeVar("T")

_CONNECT_TIMEOUT_SEC: Final = 5.0
_FIRST_POLL_SEC: Final = 0.05
_SLOWEST_POLL_SEC: Final = 1.0
_ALL: Final = frozenset({"full", "all"})


class PyocoNatsClient:
    """Created by `connect`; close it when done, or use it in an `async with` statement.

    It is not a caller with an API key: it sees the runs of all tenants, and its own have none.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = RunStore(connection)
        self._journal = Journal(connection)
        self._clock = ServerClock(connection)
        self._submitter = Submitter(connection, clock=self._clock.now)
        # Not started: a strict submit reads the workers itself.
        self._checks = SubmitChecks(FlowDirectory(connection, self._state_of))
        self._cleanup = AsyncExitStack()

    @classmethod
    async def connect(
        cls, config: NatsBackendConfig | None = None, *, timeout_sec: float | None = _CONNECT_TIMEOUT_SEC
    ) -> Self:
        """Connect with the settings of a gateway; NatsUnavailable when NATS cannot be reached in time."""
        connection = Connection(config or NatsBackendConfig.from_env(), name="pyoco-client:nats")
        connection.on_connect(lambda: ensure_resources(connection))
        connection.on_connect(lambda: trust_nothing_if_empty(connection))
        client = cls(connection)
        # Gateways date by it, and events count from the submission on.
        connection.on_connect(client._clock.on_connect)
        async with AsyncExitStack() as cleanup:
            cleanup.push_async_callback(connection.close)
            await connection.start()
            await connection.wait_ready(timeout_sec)
            cleanup.push_async_callback(client._checks.close)
            cleanup.push_async_callback(client._submitter.close)
            await client._submitter.start()
            client._cleanup = cleanup.pop_all()
        return client

    async def close(self) -> None:
        """Disconnect; submitted runs continue."""
        await self._cleanup.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
        *,
        timeout_sec: float | None = None,
        start_at: float | str | None = None,
        delay_sec: float | None = None,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Submit a run of a flow that the workers know: its `run_id` and `status`.

        With `start_at` (ISO 8601 with its offset, or unix seconds) or `delay_sec` it is SCHEDULED until then,
        and a gateway starts it. With an `idempotency_key` the same call may be made again after any failure,
        and there is one run.

        With `strict`, FlowNotFound means that no live worker of the tag has the flow, and InvalidRequest that
        the params do not match its schema.
        """
        given = {"flow_name": flow_name, "params": params or {}, "tag": tag, "timeout_sec": timeout_sec}
        given |= {"start_at": start_at, "delay_sec": delay_sec}
        request = _checked({**given, "tags": None if tags is None else list(tags)}, RunSubmitRequest)
        job = new_job(
            flow_name=request.flow_name,
            tag=request.tag or self._connection.config.default_tag,
            tags=request.tags or (),
            params=request.params,
            timeout_sec=request.timeout_sec,
        )
        start = await self._start(start_at, delay_sec)
        return await self._submit(job, idempotency_key, start, strict=strict)

    async def submit_run_yaml(
        self,
        workflow_yaml: str | bytes,
        flow_name: str,
        tag: str | None = None,
        *,
        timeout_sec: float | None = None,
        start_at: float | str | None = None,
        delay_sec: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Submit the text of a flow.yaml as a run of the given name; the rest is as in `submit_run`."""
        source = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
        limit = self._connection.config.workflow_yaml_max_bytes
        if len(source) > limit:
            raise WorkflowTooLarge(f"the flow.yaml has {len(source)} bytes, at most {limit} are allowed")
        given = {"flow_name": flow_name, "tag": tag, "timeout_sec": timeout_sec}
        request = _checked(given, RunSubmitYamlFields)
        flow = await asyncio.to_thread(check_submitted_flow, source)
        job = new_job(
            flow_name=request.flow_name,
            tag=request.tag or self._connection.config.default_tag,
            params=flow.defaults,
            timeout_sec=request.timeout_sec or None,
            workflow_yaml=source,
        )
        return await self._submit(job, idempotency_key, await self._start(start_at, delay_sec))

    async def rerun(
        self,
        run_id: str,
        mode: str = "start",
        task: str | None = None,
        *,
        params: dict[str, Any] | None = None,
        keep_answers: bool = False,
        start_at: float | str | None = None,
        delay_sec: float | None = None,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Rerun a run that has ended, as a new run: its `run_id`, `status` and `origin_run_id`.

        `params` replace all params of the origin; then the response has `params_changed`. `strict` as in
        `submit_run`.
        """
        given = {"mode": mode, "task": task, "params": params, "keep_answers": keep_answers}
        request = _checked({**given, "start_at": start_at, "delay_sec": delay_sec}, RerunRequest)
        start = await self._start(start_at, delay_sec)
        asked = RequestedRerun(
            run_id,
            request.mode,
            request.task,
            keep_answers=request.keep_answers,
            start=start,
            params=request.params,
        )
        keyed = earlier = None
        if idempotency_key is not None:
            keyed = keyed_command(idempotency_key, None, *asked.command)
            earlier = await self._submitter.earlier_submission(keyed)
        if earlier is not None:
            new_id = earlier.run_id
        else:
            job = await rerun_job(self._connection, asked, ANYBODY)
            if strict and job.workflow_yaml is None:
                await self._checks.require(job)
            new_id = await self._submitter.submit(job, request=keyed)
        changed = await params_changed(self._connection, asked, ANYBODY)
        accepted = {**await self._accepted(new_id, start), "origin_run_id": run_id}
        return accepted if changed is UNSET else {**accepted, "params_changed": changed}

    async def get_run(self, run_id: str, include: Sequence[str] = ()) -> dict[str, Any]:
        """The newest snapshot of a run; `include=["records"]` adds its task records, `full` everything."""
        snapshot = (await find_run(self._store, run_id, ANYBODY)).snapshot
        if _ALL.intersection(include):
            snapshot.params = await whole_params(self._journal, snapshot)
        return _as_dict(snapshot, with_records=bool(include))

    async def cancel_run(self, run_id: str, reason: str | None = None) -> dict[str, Any]:
        """Request that a run stops: its snapshot, CANCELLING unless it has ended already."""
        return _as_dict(await cancel_run(self._connection, self._store, run_id, ANYBODY, reason=reason))

    async def wait(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The snapshot of a run that has ended; TimeoutError when it has not in `timeout_sec`."""
        ends_at = None if timeout_sec is None else time.monotonic() + timeout_sec
        pauses = Backoff(_FIRST_POLL_SEC, _SLOWEST_POLL_SEC)
        while True:
            snapshot = (await find_run(self._store, run_id, ANYBODY)).snapshot
            if snapshot.status.terminal:
                return _as_dict(snapshot)
            pause = pauses.next_sec()
            if ends_at is not None and time.monotonic() + pause > ends_at:
                raise TimeoutError(f"run {run_id} is {snapshot.status} after {timeout_sec:g} s")
            await asyncio.sleep(pause)

    async def _submit(
        self, job: Job, key: str | None, start: RequestedStart, *, strict: bool = False
    ) -> dict[str, Any]:
        job.start_at = start.at
        keyed: KeyedRequest | None = (
            None if key is None else keyed_submission(key, job, *start.compared_fields)
        )
        if strict and (keyed is None or await self._submitter.earlier_submission(keyed) is None):
            await self._checks.require(job)
        return await self._accepted(await self._submitter.submit(job, request=keyed), start)

    def _state_of(self, worker: WorkerRecord) -> WorkerState:
        silent_sec = self._connection.config.worker_disconnect_timeout_sec
        return worker.observed_state(disconnect_timeout_sec=silent_sec)

    async def _start(self, start_at: float | str | None, delay_sec: float | None) -> RequestedStart:
        if start_at is None and delay_sec is None:
            return AT_ONCE
        # Gateways start it by the server's clock.
        await self._clock.measure()
        return requested_start(start_at, delay_sec, self._clock.now())

    async def _accepted(self, run_id: str, start: RequestedStart) -> dict[str, Any]:
        status = RunStatus.PENDING
        if start is not AT_ONCE:
            stored = await find_run(self._store, run_id, ANYBODY)
            if stored.snapshot.status is RunStatus.SCHEDULED:
                status = RunStatus.SCHEDULED
        return {"run_id": run_id, "status": status.value}


def _checked(given: Mapping[str, Any], kind: type[T]) -> T:
    """The request as a gateway reads it from JSON; InvalidRequest says what is wrong."""
    try:
        body = msgspec.json.encode({name: value for name, value in given.items() if value is not None})
        return msgspec.json.decode(body, type=kind)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(problems=[FieldProblem("", str(error))]) from None


def _as_dict(snapshot: RunSnapshot, *, with_records: bool = False) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(encode(public_snapshot(snapshot, records=with_records)))
    return fields
