"""The users of a simulation: they send requests to gateways, and record what they were answered."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from pyoco_server.broker.stores.runs.dead_letters import StoredLetter
from pyoco_server.errors import NatsUnavailable, PyocoError
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.bulk_models import BulkAction
from pyoco_server.records.runs.run_models import RerunMode, RunSnapshot
from pyoco_server.records.schedules.schedule_models import Overlap, SpecInput
from pyoco_server.records.triggers.trigger_models import (
    FlowBinding,
    TemplateOverlap,
    TemplateRecord,
    TemplateStep,
    TriggerKind,
)
from pyoco_server.records.triggers.workflow_event_models import EventActor
from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.runs.bulk.bulk_operations import BulkSpec, MatchingLetters, MatchingRuns, Selection
from pyoco_server.runs.bulk.letter_operations import LetterFilter, letter_page, remove_letter_of, replay_job
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.idempotency import keyed_command, keyed_submission
from pyoco_server.runs.lifecycle.rerun import RequestedRerun, rerun_job
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.watch.log_following import LogFollower
from pyoco_server.schedules.schedule_service import ScheduleName
from pyoco_server.triggers.workflow_events.event_service import Sender
from pyoco_server.triggers.workflow_events.event_submission import read_event
from pyoco_server.waits.human.reopen import retry_run
from tests.simulation.faults import WorldFault
from tests.simulation.invariants.evidence import FollowedLog, Request, Response
from tests.simulation.jetstream import headers
from tests.simulation.network import MessageFault
from tests.simulation.node import GatewayNode, NodeCrashed
from tests.simulation.world import World

T = TypeVar("T")

_SOMEBODY: Final = Actor(name="somebody")
_LOOK_SEC: Final = 0.25
# How long a fault may have an effect.
_LASTING_SEC: Final = 12.0
# What every process notices, whichever one it happened at.
_OF_ALL: Final = (WorldFault.SERVER_RESTART, WorldFault.POWER_FAILURE)
_LOOKS: Final = 60
_decode_run = record_decoder(RunSnapshot)


class Users:
    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: list[Request] = []
        self.followed: list[FollowedLog] = []
        self.purged: set[str] = set()
        # The kinds of requests that faults are aimed at; None: all.
        self._targets: tuple[str, ...] | None = None

    def aim_faults_at(self, *kinds: str) -> None:
        """Aim at these requests only: the others prepare them."""
        self._targets = kinds

    async def when_executed(self, run_id: str, task: str) -> None:
        """Wait until a worker begins the task, for a while."""
        for _ in range(_LOOKS * 10):
            if any((each.run_id, each.task) == (run_id, task) for each in self.world.executions):
                return
            await self.world.sleep(_LOOK_SEC / 10)

    def delete_run(self, run_id: str, *, leave_marker: bool) -> None:
        """As an operator does it with the tools of NATS."""
        bucket = self.world.gateways[0].config.runs_kv_bucket
        stream, subject = self.world.server.streams[f"KV_{bucket}"], f"$KV.{bucket}.{run_id}"
        self.world.record("operator", f"{'deletes' if leave_marker else 'purges'} run {run_id}")
        if leave_marker:
            stream.publish(subject, headers.encoded({"KV-Operation": "DEL"}), b"", time.time_ns())
        else:
            stream.purge(subject)
            self.purged.add(run_id)

    def recreate_stream(self, name: str) -> None:
        """As an operator does it with the tools of NATS: what it had is gone, and sequences begin with 1."""
        server = self.world.server
        self.world.record("operator", f"deletes {name}, and creates it again")
        config = server.streams[name].config
        server.remove_stream(name)
        server.add_stream(dict(config))

    def draw(self, count: int) -> int:
        """A decision of the seed below `count`."""
        return self.world.choices.below("user", count)

    def any_gateway(self) -> GatewayNode:
        return self.world.gateways[self.draw(len(self.world.gateways))]

    async def pause(self, most_sec: float) -> None:
        await self.world.sleep(self.draw(20) * most_sec / 20)

    async def together(self, *acts: Awaitable[object]) -> None:
        await asyncio.gather(*acts)

    async def ended(self, run_id: str) -> bool:
        """Wait for the end of the run, for a while."""
        for _ in range(_LOOKS):
            await self.world.sleep(_LOOK_SEC)
            bucket = self.world.gateways[0].config.runs_kv_bucket
            stored = self.world.server.streams[f"KV_{bucket}"].last(f"$KV.{bucket}.{run_id}")
            if stored is not None and stored.data and _decode_run(stored.data).status.terminal:
                return True
        return False

    async def send(
        self,
        kind: str,
        node: GatewayNode,
        act: Callable[[Gateway], Awaitable[T]],
        **fields: Any,
    ) -> T | None:
        """The result; None if there is none, which is recorded as what it means."""
        began_at = self.world.now
        result, text = None, ""
        if self._targets is None or kind in self._targets:
            self.world.faults.aim(node.process)
        try:
            result = await node.call(act)
            response = Response.DONE
        except NodeCrashed:
            response = Response.UNKNOWN
        except NatsUnavailable as error:
            response, text = self._meaning(error, node, began_at, fields), str(error)
        except PyocoError as error:
            response, text = Response.REFUSED, str(error)
        if callable(named := fields.pop("created", None)):
            fields |= named(result)
        self.requests.append(
            Request(
                kind=kind,
                response=response,
                gateway=node.name,
                began_at=began_at,
                ended_at=self.world.now,
                text=text,
                **fields,
            )
        )
        return result

    def _meaning(
        self, error: NatsUnavailable, node: GatewayNode, began_at: float, fields: dict[str, Any]
    ) -> Response:
        """A 503 says that nothing has changed, unless the gateway could not look or the request has a key."""
        could_look = self._could_look(node, since=began_at)
        is_unknown = "is not known" in str(error) or fields.get("key") is not None or not could_look
        return Response.UNKNOWN if is_unknown else Response.UNAVAILABLE

    def _could_look(self, node: GatewayNode, *, since: float) -> bool:
        """Whether one lost reply is all that it can notice: then its next request was answered."""
        name = "" if node.process is None else node.process.name
        faults = [each for each in self.world.faults.log if each.at >= since - _LASTING_SEC]
        noticed = [each.fault for each in faults if each.process == name or each.fault in _OF_ALL]
        return noticed == [MessageFault.LOSE_REPLY]

    async def submit(
        self, node: GatewayNode, flow: str, *, key: str | None = None, **options: Any
    ) -> str | None:
        """The id of the accepted run."""
        job = new_job(flow_name=flow, tag="default", **options)
        request = None if key is None else keyed_submission(key, job)
        return await self.send(
            "submit",
            node,
            lambda gateway: gateway.runs.submitter.submit(job, request=request),
            key=key,
            created=lambda run_id: {"run_id": run_id or job.run_id},
        )

    async def rerun(
        self, node: GatewayNode, run_id: str, mode: RerunMode = RerunMode.START, *, key: str | None = None
    ) -> str | None:
        """The id of the new run."""
        new_id: list[str] = []

        async def act(gateway: Gateway) -> str:
            asked = RequestedRerun(run_id, mode)
            job = await rerun_job(gateway.connection, asked, ANYBODY)
            new_id.append(job.run_id)
            request = None if key is None else keyed_command(key, None, *asked.command)
            return await gateway.runs.submitter.submit(job, request=request)

        return await self.send(
            "rerun",
            node,
            act,
            key=key,
            created=lambda done: {"run_id": done or (new_id[0] if new_id else None)},
            # What succeeded in it is not executed again.
            payload=run_id if mode is RerunMode.FAILED else None,
        )

    async def cancel(self, node: GatewayNode, run_id: str, *, force: bool = False) -> None:
        await self.send(
            "cancel",
            node,
            lambda gateway: cancel_run(
                gateway.connection, gateway.runs.store, run_id, ANYBODY, by="somebody", force=force
            ),
            run_id=run_id,
        )

    async def resume(
        self, node: GatewayNode, run_id: str, payload: Any, *, decision_id: str | None = None
    ) -> str | None:
        """The id of the wait that was answered."""
        receipt = await self.send(
            "answer",
            node,
            lambda gateway: gateway.waits.answers.resume(run_id, payload, ANYBODY, _SOMEBODY, decision_id),
            run_id=run_id,
            payload=payload,
            key=decision_id,
            created=lambda done: {"wait_id": None if done is None else done.wait_id},
        )
        return None if receipt is None else receipt.wait_id

    async def retry(self, node: GatewayNode, run_id: str) -> None:
        await self.send(
            "retry",
            node,
            lambda gateway: retry_run(gateway.connection, run_id, ANYBODY, _SOMEBODY),
            run_id=run_id,
        )

    async def signal(
        self, node: GatewayNode, run_id: str, name: str, data: Any, *, key: str | None = None
    ) -> None:
        await self.send(
            "signal",
            node,
            lambda gateway: gateway.signals.signal_sender.send(
                run_id, name, data, ANYBODY, _SOMEBODY, key=key
            ),
            run_id=run_id,
            payload=data,
            key=key,
        )

    async def send_event(self, node: GatewayNode, name: str, data: Any, *, event_id: str) -> None:
        await self.send(
            "event",
            node,
            lambda gateway: gateway.signals.event_sender.send(name, data, _SOMEBODY, event_id=event_id),
            payload=name,
            key=event_id,
        )

    async def create_schedule(
        self, node: GatewayNode, schedule_id: str, flow: str, *, every_sec: float
    ) -> bool:
        """Whether it was accepted; its runs may overlap."""
        spec = SpecInput(every_sec=every_sec)
        created = await self.send(
            "schedule",
            node,
            lambda gateway: gateway.schedules.service.create(
                schedule_id, ANYBODY, spec, flow_name=flow, tag="default", overlap=Overlap.ALLOW_ALL
            ),
        )
        return created is not None

    async def trigger(self, node: GatewayNode, schedule_id: str, *, key: str) -> None:
        """Start a run of the schedule now: one, however often it is repeated."""
        request = keyed_command(key, None, "trigger", schedule_id)
        await self.send(
            "trigger",
            node,
            lambda gateway: gateway.schedules.service.trigger(
                ScheduleName(schedule_id, ANYBODY), request=request
            ),
            key=key,
            created=lambda done: {"run_id": None if done is None else done.run_id},
        )

    async def prepare_template(
        self, node: GatewayNode, template_id: str, flow: str, overlap: TemplateOverlap
    ) -> bool:
        """Whether there is now a workflow template whose events start the flow; it may be repeated."""

        async def act(gateway: Gateway) -> bool:
            events, now = gateway.workflow_events, time.time()
            await events.actions.save(flow, FlowBinding(flow_name=flow, tag="default"), ANYBODY)
            step = TemplateStep(id="1", action=flow, trigger_kind=TriggerKind.EXTERNAL_EVENT)
            template = TemplateRecord(
                id=template_id,
                name=template_id,
                steps=[step],
                overlap=overlap,
                created_at=now,
                updated_at=now,
            )
            if all(each.id != template_id for each in await events.templates.current(None)):
                await events.templates.save(template, ANYBODY)
            return True

        return bool(await self.send("template", node, act))

    async def send_workflow_event(self, node: GatewayNode, template_id: str, *, key: str) -> str | None:
        """The id of its run; the payload is the key, so that the run can be found by it."""
        body = {
            "template_id": template_id,
            "idempotency_key": key,
            "payload": key,
            "year": 2030,
            "month": 1,
        }
        sender = Sender(None, None, EventActor())
        answer = await self.send(
            "workflow_event",
            node,
            lambda gateway: gateway.workflow_events.service.receive(read_event(body), sender),
            key=key,
            created=lambda done: (
                {} if done is None else {"run_id": done.run_id, "is_duplicate": done.duplicate}
            ),
        )
        return None if answer is None else answer.run_id

    async def drain_retries(self, node: GatewayNode) -> None:
        """Execute all retry jobs now."""
        await self.send(
            "drain",
            node,
            lambda gateway: gateway.workflow_events.retries.drain(lambda _: True, limit=10, force=True),
        )

    async def bulk(
        self, node: GatewayNode, action: BulkAction, *, key: str | None = None, **options: Any
    ) -> str | None:
        """The id of the operation, on everything there is."""

        async def act(gateway: Gateway) -> str:
            selection: Selection = MatchingRuns(gateway.listing.lists, RunFilter())
            if action.of_letters:
                selection = MatchingLetters(gateway.dead_letters, LetterFilter())
            spec = BulkSpec(action=action, query={}, **options)
            request = None if key is None else spec.keyed(key, ANYBODY)
            started = await gateway.bulk.starter.submit(
                selection, spec, ANYBODY, expected=100, request=request
            )
            gateway.bulk.runner.work_on(started.record.bulk_id)
            return started.record.bulk_id

        return await self.send("bulk", node, act, key=key, created=lambda done: {"run_id": done})

    async def letters(self, node: GatewayNode) -> list[StoredLetter]:
        async def act(gateway: Gateway) -> list[StoredLetter]:
            return (await letter_page(gateway.dead_letters, LetterFilter(), before=None, limit=20)).letters

        return await self.send("letters", node, act) or []

    async def replay(self, node: GatewayNode, letter: StoredLetter) -> str | None:
        """The id of the new run; the letter is removed."""
        new_id: list[str] = []

        async def act(gateway: Gateway) -> str:
            job = await replay_job(gateway.connection, letter, ANYBODY, mode=RerunMode.START)
            new_id.append(job.run_id)
            run_id = await gateway.runs.submitter.submit(job)
            await remove_letter_of(gateway.dead_letters, letter.seq, job.origin_run_id or "")
            return run_id

        return await self.send(
            "rerun",
            node,
            act,
            created=lambda done: {"run_id": done or (new_id[0] if new_id else None)},
        )

    async def follow_log(self, node: GatewayNode, run_id: str) -> None:
        """Read the log to its end."""
        lines: list[str] = []

        async def act(gateway: Gateway) -> str | None:
            runs = gateway.runs
            follower = LogFollower(runs.logs, runs.store, runs.hints, run_id)
            async for batch in follower.lines():
                lines.extend(placed.line.text for placed in batch)
            return None if follower.status is None else str(follower.status)

        status = await self.send("log", node, act, run_id=run_id)
        if self.requests[-1].response is Response.DONE:
            self.followed.append(FollowedLog(run_id=run_id, lines=lines, status=status))
