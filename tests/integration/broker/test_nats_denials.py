"""The configuration that `nats-config` prints: what is not a worker's or a gateway's to do is refused."""

import asyncio
import base64
from typing import Any

import nats
import nats.errors
import nats.js.errors
import pytest

from tests.support.places import DOCS
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import KEY, Installation, answered, installation, request, started
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


NOT_FOR_WORKERS = (
    (KEY, b"{}"),
    ("$KV.pyoco_auth.used.x", b"{}"),
    ("$KV.pyoco_leases.secret_cursors", b"{}"),
    ("$KV.pyoco_leases.secret_jobs", b"{}"),
    ("$KV.pyoco_leases.trusted_records", b'{"runs": 1000000}'),
    ("$KV.pyoco_bulk.x", b"{}"),
    ("$KV.pyoco_schedules._.nightly", b"{}"),
    ("$KV.pyoco_signals.00000000-0000-4000-8000-000000000001", b"{}"),
    ("$KV.pyoco_triggers.x", b"{}"),
    ("$KV.pyoco_receipts.x", b"{}"),
    ("$KV.pyoco_event_retries.x", b"{}"),
    ("$KV.pyoco_requests.x", b"{}"),
    ("$KV.pyoco_alerts.x", b"{}"),
    ("pyoco.events.x.x.x", b"{}"),
    ("pyoco.audit.x", b"{}"),
    ("pyoco.events_in.x", b"{}"),
    ("pyoco.deliveries.x.x.x.accepted", b"{}"),
    ("$O.pyoco_wheels.M.x", b"{}"),
    ("pyoco.work.default", b"{}"),
    ("$JS.API.STREAM.DELETE.PYOCO_WORK", b""),
    ("$JS.API.STREAM.DELETE.KV_pyoco_auth", b""),
    ("$JS.API.STREAM.PURGE.KV_pyoco_auth", b""),
    ("$JS.API.STREAM.PURGE.KV_pyoco_runs", b""),
    ("$JS.API.STREAM.UPDATE.PYOCO_WORK", b"{}"),
    ("$JS.API.STREAM.CREATE.MINE", b'{"name": "MINE", "subjects": ["mine"]}'),
    ("$JS.API.STREAM.MSG.DELETE.PYOCO_WORK", b'{"seq": 1}'),
    ("$JS.API.STREAM.LIST", b""),
    ("$JS.API.STREAM.INFO.KV_pyoco_auth", b'{"subjects_filter": ">"}'),
    ("$JS.API.STREAM.MSG.GET.KV_pyoco_auth", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.KV_pyoco_leases", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.KV_pyoco_schedules", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.KV_pyoco_signals", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.PYOCO_EVENTS", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.PYOCO_DELIVERIES", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.PYOCO_EVENTS_IN", b'{"seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.KV_pyoco_triggers", b'{"seq": 1}'),
    ("$JS.API.DIRECT.GET.KV_pyoco_triggers", b'{"next_by_subj": ">", "batch": 100}'),
    ("$JS.API.DIRECT.GET.KV_pyoco_signals", b'{"next_by_subj": ">", "batch": 100}'),
    ("$JS.API.DIRECT.GET.PYOCO_EVENTS", b'{"next_by_subj": ">", "batch": 100}'),
    ("$JS.API.DIRECT.GET.KV_pyoco_auth", b'{"seq": 1}'),
    (f"$JS.API.DIRECT.GET.KV_pyoco_auth.{KEY}", b""),
    ("$JS.API.DIRECT.GET.KV_pyoco_runs", b'{"next_by_subj": ">", "batch": 100}'),
    ("$JS.API.DIRECT.GET.KV_pyoco_runs.$KV.pyoco_runs.x", b""),
    ("$JS.API.CONSUMER.CREATE.KV_pyoco_auth", b'{"stream_name": "KV_pyoco_auth", "config": {}}'),
    ("$JS.API.CONSUMER.DURABLE.CREATE.PYOCO_WORK.mine", b"{}"),
    ("$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco_worker_default", b""),
)


async def test_a_worker_is_denied_everything_else(installation: Installation) -> None:
    await new_key(installation.settings("admin"))
    async with installation.client("worker") as (worker, _):
        answers = await asyncio.gather(
            *(request(worker, subject, payload) for subject, payload in NOT_FOR_WORKERS)
        )
    assert dict(zip(NOT_FOR_WORKERS, answers, strict=True)) == dict.fromkeys(NOT_FOR_WORKERS)
    async with installation.client("admin") as (admin, _):
        assert await answered(admin, "$JS.API.STREAM.INFO.PYOCO_WORK") is not None
        auth = await admin.jetstream().stream_info("KV_pyoco_auth")
        assert auth.state.messages == 1


async def test_a_worker_can_read_what_the_documentation_says(installation: Installation) -> None:
    """Permissions are per subject: the right to read one run is the right to read them all."""
    async with running_gateway(installation.settings("gateway")) as gateway:
        run_id = await gateway.submit("noop", tag="gpu", params={"seen": "by all"})
        async with installation.client("worker") as (worker, _):
            everything = b'{"subjects_filter": ">"}'
            listed = await answered(worker, "$JS.API.STREAM.INFO.KV_pyoco_runs", everything)
            job = await answered(worker, "$JS.API.STREAM.MSG.GET.PYOCO_WORK", b'{"seq": 1}')
    assert listed is not None
    assert list(listed["state"]["subjects"]) == [f"$KV.pyoco_runs.{run_id}"]
    assert job is not None
    assert b"by all" in base64.b64decode(job["message"]["data"])
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    assert "to list all runs, to read the `params` of every run and every queued job" in page


async def test_an_administrator_may_make_the_same_requests(installation: Installation) -> None:
    """So that the test above does not pass because of a typing mistake."""
    async with installation.client("admin") as (admin, _):
        for subject, payload in (
            (KEY, b"{}"),
            ("$JS.API.STREAM.PURGE.KV_pyoco_auth", b""),
            ("$JS.API.STREAM.MSG.GET.KV_pyoco_auth", b'{"seq": 1}'),
            ("$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco_worker_default", b""),
        ):
            assert await answered(admin, subject, payload) is not None, subject


REPLIES_OF_THE_SERVER = (
    ("$JS.API.DIRECT.GET.PYOCO_JOURNAL", b'{"next_by_subj": "pyoco.journal.default.mine", "seq": 1}'),
    ("$JS.API.STREAM.MSG.GET.PYOCO_JOURNAL", b'{"last_by_subj": "pyoco.journal.default.mine"}'),
    ("$JS.API.STREAM.INFO.PYOCO_JOURNAL", b""),
    ("$JS.API.DIRECT.GET.PYOCO_OBJECTS.pyoco.objects.default.mine", b""),
    ("pyoco.journal.default.mine", b"an acknowledgement is an answer too"),
)


@pytest.mark.parametrize("target", [KEY, "$JS.API.STREAM.PURGE.KV_pyoco_auth", "pyoco.work.default"])
async def test_a_reply_subject_does_not_reach_another_account(
    installation: Installation, target: str
) -> None:
    """The server answers with its own rights: within one account, this would forge a key."""
    await new_key(installation.settings("admin"))
    async with installation.client("worker") as (worker, _), installation.client("admin") as (admin, _):
        for kind in ("journal", "objects"):
            await worker.publish(f"pyoco.{kind}.default.mine", b'{"filter": ">"}')
        for subject, payload in REPLIES_OF_THE_SERVER:
            await worker.publish(subject, payload, reply=target)
        await worker.flush()
        assert await answered(worker, "$JS.API.STREAM.INFO.PYOCO_JOURNAL") is not None, "all has arrived"
        auth = await admin.jetstream().stream_info("KV_pyoco_auth", subjects_filter=">")
        assert auth.state.messages == 1
        assert KEY not in (auth.state.subjects or {})
        assert (await admin.jetstream().stream_info("PYOCO_WORK")).state.messages == 0


async def test_a_reply_subject_reaches_everything_within_one_account(installation: Installation) -> None:
    """Why workers have an account of their own: this is what permissions alone do not prevent."""
    async with (
        installation.client("gateway") as (gateway, complaints),
        installation.client("admin") as (admin, _),
    ):
        await gateway.publish(KEY, b"forged")
        await gateway.publish("pyoco.journal.default.mine", b"forged")
        direct = "$JS.API.DIRECT.GET.PYOCO_JOURNAL.pyoco.journal.default.mine"
        await gateway.publish(direct, b"", reply=KEY)
        await gateway.flush()

        async def stored() -> bool:
            return bool((await admin.jetstream().stream_info("KV_pyoco_auth")).state.messages == 1)

        await eventually(stored, describe="the forged record is there")
        assert [KEY.lower() in complaint for complaint in complaints] == [True], "the direct way was refused"


async def test_a_worker_cannot_subscribe_to_others(installation: Installation) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    key = await new_key(installation.settings("admin"))
    async with installation.client("worker") as (worker, _):
        await worker.subscribe(">", cb=hear)
        await worker.flush()
        async with running_gateway(installation.settings("gateway", http_auth_mode="api_key")) as gateway:
            answer = await gateway.http.post("/runs", json={"flow_name": "noop"}, headers=key.header)
            assert answer.status_code == 200
            marker = f"$O.pyoco_wheels.M.{'x' * 8}"
            await gateway.inside.connection.publish(marker, b"{}")
            await eventually(lambda: marker in heard, describe="what is for workers has come")
    assert {subject for subject in heard if not subject.startswith("_INBOX")} == {marker}


async def test_a_gateway_cannot_delete_streams_or_create_keys(installation: Installation) -> None:
    subjects = [
        "$JS.API.STREAM.DELETE.PYOCO_WORK",
        "$JS.API.STREAM.PURGE.KV_pyoco_auth",
        KEY,
        "$JS.API.STREAM.DELETE.KV_pyoco_auth",
    ]
    async with installation.client("gateway") as (gateway, complaints):
        answers = await asyncio.gather(*(request(gateway, subject) for subject in subjects))
    assert answers == [None] * len(subjects)
    assert [subject for subject in subjects if not any(subject.lower() in each for each in complaints)] == []
    assert len(complaints) == len(subjects)


@pytest.mark.parametrize(
    ("user", "subject", "bucket"),
    [
        ("worker", "$KV.pyoco_runs.mine", "KV_pyoco_runs"),
        ("worker", "$KV.pyoco_workers.mine", "KV_pyoco_workers"),
        ("gateway", "$KV.pyoco_auth.used.mine", "KV_pyoco_auth"),
    ],
)
async def test_no_write_can_erase_other_records(
    installation: Installation, user: str, subject: str, bucket: str
) -> None:
    """A message with `Nats-Rollup: all` replaces everything in a bucket that takes it."""
    async with installation.client("admin") as (admin, _), installation.client(user) as (client, _):
        await admin.jetstream().publish(f"{subject.rpartition('.')[0]}.another", b"{}")
        for how in ("all", "sub"):
            with pytest.raises(nats.js.errors.APIError, match="rollup"):
                await client.jetstream().publish(subject, b"{}", headers={"Nats-Rollup": how})
        await client.jetstream().publish(subject, b"{}")
        assert (await admin.jetstream().stream_info(bucket)).state.messages == 2
