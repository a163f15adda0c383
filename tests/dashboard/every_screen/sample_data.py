"""A gateway with something to see on every screen."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.records.workers.worker_models import WheelSyncState, WorkerHost
from tests.integration.alerts.alerting import is_delivered, save, webhook
from tests.support.agent.served_repository import ServedRepository
from tests.support.broker.stored_runs import ended, write_many
from tests.support.broker.stored_waits import ask
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.hook_senders import a_hook
from tests.support.running.workflow_events import put_action, save_template, send
from tests.support.samples.wheel_uploads import registered
from tests.support.webhooks import webhook_receiver

HOUR = 3600.0
DAY = 24 * HOUR
QUESTION = {
    "text": "Which format?",
    "why": "There are two.",
    "format": "ISO or US",
    "choices": ["ISO", "US"],
}


@dataclass(frozen=True)
class SampleData:
    """The path of every screenshot, by its name."""

    paths: dict[str, str]


@asynccontextmanager
async def sample_data(served: ServedRepository, folder: Path) -> AsyncIterator[SampleData]:
    gateway = served.gateway
    release = folder / "release"
    try:
        runs, template, requests, wait_id, _ = await asyncio.gather(
            _runs(gateway, release, folder),
            _triggers(gateway),
            _requests(served),
            _questions(gateway),
            _workers_and_wheels(gateway),
        )
        await _views_and_actions(gateway, runs)
        with webhook_receiver() as receiver:
            await _alerts(gateway, receiver)
            yield SampleData(_paths(runs, wait_id, template, requests))
    finally:
        release.touch()


def _paths(runs: dict[str, str], wait_id: str, template: str, requests: dict[str, str]) -> dict[str, str]:
    found = {
        "home": "/",
        "runs": "/runs",
        "runs-failed": "/runs?status=FAILED",
        "flows": "/flows",
        "flow": "/flows/nightly_load",
        "flow-graph": "/flows/sales",
        "inbox": "/inbox",
        "inbox-answered": "/inbox?view=answered",
        "wait": f"/waits/{wait_id}",
        "requests": "/requests",
        "request-edit": f"/requests/{requests['queued']}/edit",
        "new-request": "/new-request",
        "doctor": "/doctor",
        "schedules": "/schedules",
        "schedule": "/schedules/nightly",
        "schedule-edit": "/schedules/nightly/edit",
        "new-schedule": "/new-schedule",
        "events": f"/events?ym={time.strftime('%Y-%m')}",
        "templates": "/templates",
        "template": f"/templates/{template}",
        "hooks": "/hooks",
        "hook": "/hooks/orders",
        "hook-edit": "/hooks/orders/edit",
        "new-hook": "/new-hook",
        "alerts": "/alerts",
        "alert": "/alerts/load-failing",
        "alert-edit": "/alerts/load-failing/edit",
        "new-alert": "/new-alert",
        "workers": "/workers",
        "worker-open": "/workers?worker=tokyo-1",
        "wheels": "/wheels",
        "wheels-history": "/wheels?view=history",
        "dlq": "/dlq",
        "metrics": "/metrics",
        "metrics-gateway": "/metrics?view=gateway",
        "audit": "/audit",
        "compare": f"/compare?a={runs['compared']}&b={runs['failed']}",
        "submit": "/submit",
        "submit-flow": "/submit?flow=sales",
        "submit-yaml": "/submit?kind=yaml",
        "api": "/api",
        "settings": "/settings",
        "nowhere": "/nowhere",
    }
    found |= {f"request-{name}": f"/requests/{request_id}" for name, request_id in requests.items()}
    return found | {f"run-{name}": f"/runs/{run_id}" for name, run_id in runs.items() if name != "compared"}


async def _runs(gateway: RunningGateway, release: Path, folder: Path) -> dict[str, str]:
    inside = gateway.inside
    await write_many(inside.connection, _two_weeks(time.time()))
    fan_out = _fan_out(time.time() - HOUR)
    await write_many(inside.connection, [fan_out])
    labels = {"tags": ["night", "customer:42"]}
    done = await gateway.run("sales", params={"day": "2026-11-15"}, **labels)
    failed = await gateway.run("sales", params={"day": "2026-11-16", "fails": True, "flaky": True}, **labels)
    report = await gateway.run("sales_report", tag="examples")
    text = {"totals.csv": "region,amount\nnorth,12\nsouth,7\n", "notes/readme.md": "# Notes\n\nAll good.\n"}
    files = await gateway.run("writing-files", params={"files": text})
    rerun = (await gateway.http.post(f"/runs/{failed['run_id']}/rerun", json={})).json()["run_id"]
    await gateway.ends(rerun)
    running = await gateway.submit("sales", params={"release": str(release)})
    await gateway.reaches(running, "RUNNING")
    asleep = await gateway.submit("order")
    waiting = await gateway.submit("approval", params={"notes": str(folder / "notes")})
    await gateway.reaches(waiting, "WAITING_HUMAN")
    pending = await gateway.submit("sales", tag="gpu")
    cancelled = await gateway.submit("chain", tag="gpu")
    await gateway.http.post(f"/runs/{cancelled}/cancel", json={"reason": "wrong month"})
    scheduled = await gateway.submit("sales", start_at=time.time() + HOUR)
    return {
        "done": report["run_id"],
        "compared": done["run_id"],
        "failed": failed["run_id"],
        "files": files["run_id"],
        "running": running,
        "asleep": asleep,
        "waiting": waiting,
        "pending": pending,
        "cancelled": cancelled,
        "scheduled": scheduled,
        "fan-out": fan_out.run_id,
    }


def _fan_out(at: float) -> RunSnapshot:
    names = [f"resize_{number}" for number in range(60)]
    states = {"split": "SUCCEEDED", **dict.fromkeys(names, "SUCCEEDED"), "resize_7": "FAILED"}
    records: dict[str, Any] = {
        name: {
            "after": ["split"] if name != "split" else [],
            "started_at": at - 60 + (number % 8) * 6,
            "ended_at": at - 55 + (number % 8) * 6,
        }
        for number, name in enumerate(states)
    }
    return ended(
        RunStatus.FAILED,
        at=at,
        flow_name="resize_images",
        tasks=states,
        task_records=records,
        start_time=at - 62,
        submitted_at=at - 70,
        worker_id="tokyo-1",
        error="task resize_7: OSError: cannot identify image file 'in/7.png'",
    )


def _two_weeks(now: float) -> list[RunSnapshot]:
    """Three flows, of which one takes twice as long and fails sometimes since a week."""
    runs: list[RunSnapshot] = []
    for hours in range(1, 14 * 24, 4):
        at = now - hours * HOUR - 90
        is_new = hours < 6.5 * 24
        for flow, took in (("nightly_load", 20.0 if is_new else 10.0), ("mail", 2.0), ("report", 45.0)):
            fails = is_new and flow == "nightly_load" and hours % 24 == 9
            runs.append(
                ended(
                    RunStatus.FAILED if fails else RunStatus.COMPLETED,
                    at=at,
                    flow_name=flow,
                    worker_id="tokyo-1",
                    start_time=at - took,
                    submitted_at=at - took - 1.5,
                    error="Task load failed: ConnectionError: db.example refused" if fails else None,
                )
            )
    return runs


async def _triggers(gateway: RunningGateway) -> str:
    http = gateway.http
    for body in (
        {"schedule_id": "nightly", "spec": {"cron": ["0 2 * * *"], "timezone": "Asia/Tokyo"}},
        {"schedule_id": "every-15-minutes", "spec": {"every_sec": 900}, "tag": "gpu"},
        {"schedule_id": "launch", "spec": {"at": ["2031-01-01T00:00:00Z"]}, "paused": True},
    ):
        made = await http.post("/schedules", json={"flow_name": "noop", "note": "Owned by sales", **body})
        assert made.status_code == 201, made.text
    await http.post("/schedules/nightly/trigger", json={})
    hook = await a_hook(http, "github", hook_id="orders", flow_name="noop", note="Orders of the shop")
    await a_hook(http, "token", hook_id="alarms", flow_name="noop")
    for number in range(3):
        await gateway.ends(await hook.started({"order": number}))
    await http.post("/hooks/orders", content=b"{}", headers={"x-hub-signature-256": "sha256=00"})
    await hook.deliveries(3)
    await put_action(gateway)
    year, month = time.localtime()[:2]
    await save_template(gateway, "month-end", year=year, month=month)
    await save_template(gateway, "by-hand", kind="manual_start", year=year, month=month)
    for wanted in ("month-end", "month-end", "by-hand", "nowhere"):
        await send(gateway, template_id=wanted, idempotency_key="k-1", year=year, month=month, source="erp")
    return "month-end"


async def _requests(served: ServedRepository) -> dict[str, str]:
    """One that is done, one that asks, one that failed and one that is queued."""

    async def made(request_id: str, title: str, status: str, script: dict[str, Any] | None = None) -> None:
        served.repository.script(**(script or {}))
        want = "## Goal\n\nGreet people **by name**."
        await served.create(request_id, title=title, want={"text": want}, tags=["demo"])
        if status != "queued":
            await served.act(request_id, "enqueue")
            await served.reaches(request_id, status)

    await made("greet", "Greet people by name", "done")
    (served.repository.cli / "calls.log").unlink()
    await made("break", "Break the build", "failed", {"*": [{"exit": 1}], "planner": [{}]})
    (served.repository.cli / "calls.log").unlink()
    await made("dates", "Print dates in one format", "needs_input", {"S02": [{"question": QUESTION}]})
    await made("later", "Add a Japanese greeting", "queued")
    return {"done": "greet", "failed": "break", "question": "dates", "queued": "later"}


async def _questions(gateway: RunningGateway) -> str:
    schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
        "required": ["approved"],
    }
    message = "Invoice 2026-118 of Example Ltd. over 1,204.00 EUR: is this payment right?"
    [wait] = await ask(
        gateway.inside, "payment", message=message, schema=schema, assignees=["ada@example.com"]
    )
    [answered] = await ask(gateway.inside, "shipping", message="Ship order 77 today?")
    await gateway.http.post(f"/waits/{answered.wait_id}/respond", json={"payload": "yes"})
    return wait.wait_id


async def _workers_and_wheels(gateway: RunningGateway) -> None:
    await registered(gateway, "shop", "1.9.0")
    await registered(gateway, "shop", "1.10.0", tags="cpu")
    await registered(gateway, "fast_math", "0.3.1", platform="cp311-cp311-linux_x86_64", tags="gpu,linux")
    host = WorkerHost(name="rack-7", system="Linux x86_64", python="3.11.2", cpus=4)
    lost = a_record("rack-7-worker-2", seen_at=time.time() - 600, host=host, wheel_sync=WheelSyncState())
    await put_record(gateway.inside.connection, lost)
    failures = (
        (
            "execution_error",
            "ValueError: row 1,204 has no customer id\n  while it was loaded from s3://in/7.csv",
        ),
        ("timeout", "the task train took longer than its 600 seconds"),
        ("executor_crashed", "the executor was ended by signal 9 (SIGKILL)"),
    )
    for number, (reason, error) in enumerate(failures):
        at = time.time() - 900 * number
        run = ended(RunStatus.FAILED, at=at, flow_name="train_model", error=error)
        await write_many(gateway.inside.connection, [run])
        letter = DeadLetter(
            timestamp=at,
            reason=reason,
            error=error,
            run_id=run.run_id,
            flow_name=run.flow_name,
            worker_id="tokyo-1",
            num_delivered=2,
            subject="pyoco.work.default",
            tags=["night"],
        )
        await gateway.inside.dead_letters.publish(letter, tag="default")


async def _views_and_actions(gateway: RunningGateway, runs: dict[str, str]) -> None:
    for name, status in (("Failed runs", "FAILED"), ("Waiting for people", "WAITING_HUMAN")):
        saved = await gateway.http.put(f"/views/{name}", json={"name": name, "filter": {"status": [status]}})
        assert saved.is_success, saved.text
    await gateway.http.post("/schedules/launch/resume", json={})
    await gateway.http.post("/schedules/launch/pause", json={"note": "after the move"})
    await gateway.http.post(f"/runs/{runs['done']}/cancel", json={})


async def _alerts(gateway: RunningGateway, receiver: Any) -> None:
    channels = [webhook(receiver)]
    await save(gateway, "gpu-queue", condition="queue_age", tag="gpu", after_sec=86_400, channels=channels)
    await save(
        gateway,
        "load-failing",
        condition="failures",
        flow_name="nightly_load",
        count=1,
        window_sec=DAY,
        channels=channels,
        note="Call the data team",
    )
    await is_delivered(gateway, "load-failing")
