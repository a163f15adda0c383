"""Waits that are written into the bucket by the test itself, with runs that wait for them."""

import time
from typing import Any

from msgspec import UNSET, structs

from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.records.runs.run_models import RunSnapshot, TaskStatus
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState, digest_of, wait_id_of
from pyoco_server.runs.lifecycle.waiting_state import parked_snapshot
from tests.support.broker.stored_runs import signed, snapshot


def a_wait(run_id: str, name: str = "approve", **fields: Any) -> WaitRecord:
    """An open wait with a late deadline."""
    now = time.time()
    arming = fields.get("arming", 1)
    given: dict[str, Any] = {
        "flow_name": "invoices",
        "tag": "default",
        "node": f"check||{name}",
        "task": "check",
        "message": f"{name}?",
        "created_at": now,
        "deadline_at": now + 3600,
        **fields,
    }
    if "proposal" in given:
        given["proposal_digest"] = digest_of(given["proposal"])
    wait_id = wait_id_of(run_id, given["node"], name, arming)
    return WaitRecord(wait_id=wait_id, run_id=run_id, name=name, **given)


def decided(wait: WaitRecord, state: WaitState = WaitState.ANSWERED, payload: Any = UNSET) -> WaitRecord:
    return structs.replace(wait, state=state, decided_at=time.time(), payload=payload)


def waiting_run(
    *names: str, tenant_id: str | None = None, **fields: Any
) -> tuple[RunSnapshot, list[WaitRecord]]:
    """A run that waits for people, as its worker leaves it, and the waits."""
    run = snapshot(flow_name="invoices", tenant_id=tenant_id)
    waits = [a_wait(run.run_id, name, tenant_id=tenant_id, **fields) for name in names or ("approve",)]
    return parked_snapshot(run, waits, {"check": TaskStatus.WAITING}), waits


async def ask(inside: Gateway, *names: str, **fields: Any) -> list[WaitRecord]:
    """Have a new run wait for people."""
    run, waits = waiting_run(*names, **fields)
    for wait in waits:
        await inside.waits.store.create(wait)
    await inside.runs.store.create(await signed(inside.connection, run))
    return waits


async def let_expire(store: WaitStore, wait_id: str) -> None:
    """Move an open wait into the past, so that it has expired."""
    stored = await store.get_from_leader(wait_id)
    assert stored is not None
    wait = stored.record
    past = wait.deadline_at - time.time()
    moved = structs.replace(wait, created_at=wait.created_at - past, deadline_at=wait.deadline_at - past)
    await store.replace(moved, stored.revision)


async def decide(store: WaitStore, wait: WaitRecord, state: WaitState = WaitState.ANSWERED) -> None:
    """As another gateway would."""
    stored = await store.get_from_leader(wait.wait_id)
    assert stored is not None
    await store.replace(decided(stored.record, state), stored.revision)
