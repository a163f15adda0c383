"""The WebSocket of a run of an agent request: its log from the first line on, its phases, status and end.

A connection ends after DONE, when the client closes it, when the gateway stops, or when its API key is
revoked or expires. Nothing is read from the client.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Final

import msgspec
from starlette.websockets import WebSocket

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.agent.flow.run_log import said_phase
from pyoco_server.agent.header_status import HeaderStatus
from pyoco_server.agent.requests.request_service import RequestRunState, RequestService
from pyoco_server.agent.requests.request_state import phase_of_task
from pyoco_server.agent.run_files import RUNNER_LOG
from pyoco_server.api.agent_request_types import DoneEvent, LogEvent, PhaseEvent, RequestEvent, StatusEvent
from pyoco_server.errors import NatsUnavailable, PyocoError, UnreadableRecord
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.authentication import SOCKET_PROTOCOL
from pyoco_server.http_api.middleware.principal import access_ended
from pyoco_server.http_api.responses.refusals import refusal, request_in
from pyoco_server.http_api.routes.agent.request_routes import request_service
from pyoco_server.records.agent.request_models import RequestRun
from pyoco_server.runs.watch.log_following import LogFollower

# Batches of events that wait for a slow client.
_BATCHES: Final = 4
# A change may be missed in an outage.
_STATUS_SEC: Final = 15.0
_RETRY_SEC: Final = 1.0
_LINES_OF_A_BATCH: Final = 500
_GOING_AWAY: Final = 1001
_POLICY_VIOLATION: Final = 1008
_INTERNAL_ERROR: Final = 1011

_encode = msgspec.json.Encoder().encode
_Batch = Sequence[RequestEvent]
# None: there are no more.
_Batches = asyncio.Queue[_Batch | None]


async def follow_run(socket: WebSocket) -> None:
    try:
        service = request_service(socket)
        request_id, number = socket.path_params["request_id"], socket.path_params["run_number"]
        run = await service.run(request_id, number)
    except (AgentError, PyocoError) as error:
        await socket.send_denial_response(refusal(error, request_in(socket.scope, socket.receive)))
        return
    offered: Sequence[str] = socket.scope.get("subprotocols", ())
    await socket.accept(SOCKET_PROTOCOL if SOCKET_PROTOCOL in offered else None)
    gateway = gateway_of(socket)
    await _serve(socket, gateway, _events(gateway, service, run))


async def _serve(socket: WebSocket, gateway: Gateway, events: AsyncGenerator[_Batch, None]) -> None:
    """Send the events until one of the ends that the module names."""
    sending = asyncio.create_task(_send(socket, events), name="socket:send")
    leaving = asyncio.create_task(_client_leaves(socket), name="socket:client")
    stopping = asyncio.create_task(gateway.stopping.wait(), name="socket:stopping")
    tasks: set[asyncio.Task[object]] = {sending, leaving, stopping}
    over = access_ended(socket.scope)
    access = None if over is None else asyncio.create_task(over.wait(), name="socket:access")
    if access is not None:
        tasks.add(access)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not leaving.cancelled():
        return
    code = 1000
    if not sending.cancelled() and sending.exception() is not None:
        code = _INTERNAL_ERROR
    elif access is not None and not access.cancelled():
        code = _POLICY_VIOLATION
    elif not stopping.cancelled():
        code = _GOING_AWAY
    await socket.close(code)
    if not sending.cancelled():
        sending.result()


async def _send(socket: WebSocket, events: AsyncGenerator[_Batch, None]) -> None:
    async with aclosing(events):
        async for batch in events:
            for event in batch:
                await socket.send_text(_encode(event).decode())


async def _client_leaves(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _events(
    gateway: Gateway, service: RequestService, run: RequestRunState
) -> AsyncGenerator[_Batch, None]:
    if run.run is None or await _is_removed(gateway, run.run):
        # A run that only its files know.
        async with aclosing(_lines_of_file(service, run)) as lines:
            async for batch in lines:
                yield batch
        yield _end(service, run)
        return
    async with aclosing(_merged(gateway, service, run.run, run.files.request_id)) as batches:
        async for batch in batches:
            yield batch
    # Its end is written to the file before it is reported.
    await service.queue.reconcile(run.files.request_id)
    yield _end(service, await service.run(run.files.request_id, run.files.run_number))


async def _merged(
    gateway: Gateway, service: RequestService, run: RequestRun, request_id: str
) -> AsyncGenerator[_Batch, None]:
    """Lines and changes of the status, until the run has ended and all of its lines were sent."""
    batches: _Batches = asyncio.Queue(_BATCHES)
    lines = asyncio.create_task(_put_lines(gateway, service, run, batches), name="socket:lines")
    statuses = asyncio.create_task(
        _put_statuses(gateway, service, run, request_id, batches), name="socket:statuses"
    )
    try:
        while (batch := await batches.get()) is not None:
            yield batch
    finally:
        for task in (lines, statuses):
            task.cancel()
        await asyncio.wait([lines, statuses])
    if not lines.cancelled():
        lines.result()


async def _put_lines(gateway: Gateway, service: RequestService, run: RequestRun, batches: _Batches) -> None:
    runs, phase = gateway.runs, ""
    follower = LogFollower(runs.logs, runs.store, runs.hints, run.run_id)
    try:
        async with aclosing(follower.lines()) as pages:
            async for page in pages:
                events: list[RequestEvent] = []
                for _, line in page:
                    at = _ts(service, line.ts)
                    # Of the task, not of what it prints: a coding CLI may print anything.
                    current = phase_of_task(line.task) or phase
                    if current != phase:
                        phase = current
                        events.append(PhaseEvent(ts=at, phase=phase))
                    events.append(LogEvent(ts=at, line=line.text))
                await batches.put(events)
    except Exception:
        await batches.put(None)
        raise
    await batches.put(None)


async def _put_statuses(
    gateway: Gateway, service: RequestService, run: RequestRun, request_id: str, batches: _Batches
) -> None:
    sent: HeaderStatus | None = None
    with gateway.listing.run_hub.follow_run(run.run_id) as changes:
        while True:
            try:
                state = await service.read(request_id)
            except (NatsUnavailable, UnreadableRecord):
                await changes.next(_RETRY_SEC)
                continue
            except AgentError:
                # The request was deleted.
                return
            if state.latest is None or state.latest.number != run.number:
                return
            if state.header_status != sent:
                sent = state.header_status
                await batches.put([_status(service, sent)])
            await changes.next(_STATUS_SEC)


async def _is_removed(gateway: Gateway, run: RequestRun) -> bool:
    """Whether the run has ended, and was removed since with its log, such as by retention."""
    return run.outcome is not None and not await gateway.runs.store.exists(run.run_id)


async def _lines_of_file(service: RequestService, run: RequestRunState) -> AsyncGenerator[_Batch, None]:
    """The log of the run's folder, in batches; its lines have no times of their own."""
    try:
        descriptor = run.files.open_artifact(RUNNER_LOG)
    except AgentError:
        return
    with os.fdopen(descriptor, encoding="utf-8", errors="replace", newline="\n") as file:
        at = _ts(service, os.fstat(descriptor).st_mtime)
        while lines := await asyncio.to_thread(list, islice(file, _LINES_OF_A_BATCH)):
            yield [event for line in lines for event in _events_of_line(at, line.rstrip("\n"))]


def _events_of_line(at: str, line: str) -> Iterator[RequestEvent]:
    if phase := said_phase(line):
        yield PhaseEvent(ts=at, phase=phase)
    yield LogEvent(ts=at, line=line)


def _status(service: RequestService, header_status: HeaderStatus) -> StatusEvent:
    return StatusEvent(
        ts=_ts(service),
        status=header_status.status,
        blocked_reason=header_status.blocked_reason,
        failure_reason=header_status.failure_reason,
    )


def _end(service: RequestService, run: RequestRunState) -> _Batch:
    """The last events."""
    header_status = run.header_status
    done = DoneEvent(
        ts=_ts(service),
        status=header_status.status,
        pr_url=None if run.stage is None else run.stage.pr_url,
        last_commit=None if run.stage is None else run.stage.last_commit,
        failure_reason=header_status.failure_reason,
    )
    return [_status(service, header_status), done]


def _ts(service: RequestService, at: float | None = None) -> str:
    repository = service.repository
    moment = repository.now() if at is None else repository.at(at)
    return moment.isoformat(timespec="milliseconds")
