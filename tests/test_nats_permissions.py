"""The configuration that `nats-config` prints: everything works with it, and nothing else does."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nats
import nats.errors
import nats.js.errors
import nkeys
import pytest
from nats.aio.client import Client
from typer.testing import CliRunner

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.resources import ensure_resources, resources
from pyoco_server.broker.work_queue import WorkQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.worker import PyocoNatsWorker

from .support.api_keys import new_key
from .support.connections import connected
from .support.event_reading import reading_events
from .support.gateway import RunningGateway, running_gateway
from .support.secured_nats import SecuredNats
from .support.waiting import eventually
from .support.webhooks import webhook_receiver
from .support.wheel_uploads import greeting, greetings, registered, synced
from .support.workers import serving_worker

KEY = "$KV.pyoco_auth.key.forged"


@dataclass(frozen=True)
class Installation:
    """One server, and the settings of each part."""

    server: SecuredNats
    users: dict[str, dict[str, str]]
    base: NatsBackendConfig

    def settings(self, user: str, **changes: Any) -> NatsBackendConfig:
        known = self.users[user]
        return replace(
            self.base,
            nats_url=self.server.url,
            nats_user=known["user"],
            nats_password=known["password"],
            **changes,
        )

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
        """A bare client, for what our own programs would not try; and what the server complained about."""
        complaints: list[str] = []

        async def on_error(error: Exception) -> None:
            complaints.append(str(error))

        known = self.users[user]
        client = await nats.connect(
            self.server.url, user=known["user"], password=known["password"], error_cb=on_error
        )
        try:
            yield client, complaints
        finally:
            await client.close()


def printed(*arguments: str) -> dict[str, Any]:
    """The accounts that the command prints."""
    result = CliRunner().invoke(admin_app, ["nats-config", *arguments])
    assert result.exit_code == 0, result.output
    accounts: dict[str, Any] = json.loads(result.stdout.partition("\naccounts: ")[2])
    return accounts


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredNats, dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOCO_LOAD_DOTENV", "0")
        accounts = printed("--worker", "worker", "--worker", "gpu=gpu")
    server = SecuredNats(tmp_path_factory.mktemp("secured"), accounts=accounts)
    server.start()
    yield server, {user["user"]: user for account in accounts.values() for user in account["users"]}
    server.stop()


@pytest.fixture
async def installation(
    started: tuple[SecuredNats, dict[str, Any]], config: NatsBackendConfig
) -> AsyncIterator[Installation]:
    """The shared server, emptied and set up anew."""
    server, users = started
    found = Installation(server, users, replace(config, sweep_interval_sec=0.3))
    async with connected(found.settings("admin")) as admin:
        for tag in ("default", "gpu"):
            await WorkQueue(admin).ensure_consumer(tag)
    yield found
    async with found.client("admin") as (client, _):
        for stream in resources(config):
            await client.jetstream().delete_stream(str(stream.name))


def violations(caplog: pytest.LogCaptureFixture) -> list[str]:
    words = ("permissions violation", "nothing answers")
    return [text for text in caplog.messages if any(word in text.lower() for word in words)]


async def bulk(gateway: RunningGateway, path: str, query: dict[str, str]) -> None:
    dry = await gateway.http.post(path, params=query, json={"dry_run": True})
    assert dry.status_code == 200, dry.text
    begun = await gateway.http.post(path, params=query, json={"token": dry.json()["token"]})
    assert begun.status_code == 200, begun.text
    bulk_id = begun.json()["operation"]["bulk_id"]

    async def done() -> bool:
        return bool((await gateway.http.get(f"/bulk/{bulk_id}")).json()["state"] == "COMPLETED")

    await eventually(done, within=10, describe="the bulk operation is done")


async def test_runs_logs_reruns_cancels_and_dead_letters_work(
    installation: Installation, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with (
        running_gateway(installation.settings("gateway")) as gateway,
        serving_worker(installation.settings("worker"), concurrency=2),
    ):
        watched = await gateway.submit("counting", params={"counter": str(tmp_path / "c"), "seconds": 0})
        async with reading_events(gateway.http, f"/runs/{watched}/watch") as events:
            await events.is_over()
        talking = await gateway.ends(await gateway.submit("counting-at-once", params={"lines": 3}))
        assert talking["status"] == "COMPLETED"
        log_page = await gateway.http.get(f"/runs/{talking['run_id']}/logs")
        assert "all counted" in log_page.text
        failed = await gateway.ends(await gateway.submit("failing", params={"message": "no"}))
        assert failed["status"] == "FAILED"
        again = await gateway.http.post(f"/runs/{failed['run_id']}/rerun", json={"mode": "failed"})
        assert (await gateway.ends(again.json()["run_id"]))["status"] == "FAILED"
        hanging = await gateway.submit("hanging", params={"started": str(tmp_path / "started")})
        await gateway.reaches(hanging, "RUNNING")
        assert (await gateway.http.get(f"/runs/{hanging}/explain")).status_code == 200
        assert (await gateway.http.post(f"/runs/{hanging}/cancel")).status_code == 200
        assert (await gateway.ends(hanging))["status"] == "CANCELLED"
        letters = (await gateway.http.get("/dlq")).json()["items"]
        assert letters
        replayed = await gateway.http.post(f"/dlq/{letters[0]['seq']}/replay")
        assert replayed.status_code == 200, replayed.text
        await gateway.ends(replayed.json()["run_id"])
        assert (await gateway.http.delete(f"/dlq/{letters[-1]['seq']}")).status_code == 200
        await bulk(gateway, "/bulk/rerun", {"status": "failed"})
        assert (await gateway.http.get("/metrics")).status_code == 200
        key = {"Idempotency-Key": "once"}
        answers = [
            await gateway.http.post("/runs", json={"flow_name": "noop"}, headers=key) for _ in range(2)
        ]
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        paused = await gateway.http.patch("/workers/worker", json={"paused": True})
        assert paused.status_code == 200
    assert violations(caplog) == []


async def test_a_person_is_asked_told_of_it_and_answers(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    examples = Path(__file__).parents[1] / "examples" / "flows"
    with webhook_receiver() as receiver:
        async with (
            running_gateway(installation.settings("gateway", notify_url=receiver.url)) as gateway,
            serving_worker(installation.settings("worker"), flows=examples),
        ):
            run_id = await gateway.submit("invoice")
            await gateway.reaches(run_id, "WAITING_HUMAN")
            answer = {"runId": run_id, "payload": {"decision": "rejected"}}
            assert (await gateway.http.post("/resume", json=answer)).status_code == 200
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
            await eventually(lambda: len(receiver.told) == 2, within=10, describe="both were told")
    assert {told.body["event"]["kind"] for told in receiver.told} == {"opened", "answered"}
    assert violations(caplog) == []


async def test_a_run_is_resumed_and_old_ones_are_removed(
    installation: Installation, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    book, release = tmp_path / "book", tmp_path / "release"
    gateway_settings = installation.settings("gateway", run_retention_sec=1.0)
    async with running_gateway(gateway_settings) as gateway:
        params = {"book": str(book), "release": str(release)}
        run_id = await gateway.submit("interrupted-chain", params=params)
        async with serving_worker(installation.settings("worker", drain_timeout_sec=0)):
            await eventually(
                lambda: book.exists() and "two" in book.read_text(), within=10, describe="it began"
            )
        release.touch()
        async with serving_worker(installation.settings("worker"), worker_id="second"):
            assert (await gateway.ends(run_id, within=20))["status"] == "COMPLETED"
        assert book.read_text().split().count("one") == 1, "the journal was read"

        async def gone() -> bool:
            return (await gateway.http.get(f"/runs/{run_id}")).status_code == 404

        await eventually(gone, within=15, describe="retention has removed the run")
    assert violations(caplog) == []


async def test_a_job_that_was_never_published_is_found_by_the_sweep(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(installation.settings("gateway")) as gateway:
        run_id = await gateway.submit("noop")
        await eventually(lambda: run_id in gateway.inside.sweeper._queued, within=10, describe="it was seen")
        async with installation.client("admin") as (admin, _):
            await admin.jetstream().purge_stream("PYOCO_WORK")
        async with serving_worker(installation.settings("worker")):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
    assert violations(caplog) == []


async def test_wheels_reach_the_workers(installation: Installation, caplog: pytest.LogCaptureFixture) -> None:
    wanted: dict[str, Any] = {"wheel_sync_enabled": True, "wheel_sync_interval_sec": 0.5}
    async with running_gateway(installation.settings("gateway")) as gateway:
        await registered(gateway, content=greetings("0.1.0", "old"))
        async with serving_worker(installation.settings("worker", **wanted)):
            await synced(gateway, last_result="ok", selected_count=1)
            assert await greeting(gateway) == "old"
            await registered(gateway, version="0.2.0", content=greetings("0.2.0", "new"))
            await synced(gateway, last_result="ok", updated_wheels=["greetings-0.2.0-py3-none-any.whl"])
            deleted = await gateway.http.delete("/wheels/greetings-0.2.0-py3-none-any.whl")
            assert deleted.status_code == 200
    assert violations(caplog) == []


async def test_keys_are_made_by_the_admin_and_asked_for_by_the_gateway(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    key = await new_key(installation.settings("admin"))
    async with running_gateway(installation.settings("gateway", http_auth_mode="api_key")) as gateway:
        assert (await gateway.http.get("/runs")).status_code == 401
        assert (await gateway.http.get("/workers", headers=key.header)).status_code == 200
    assert violations(caplog) == []


async def test_workers_of_a_group_serve_its_tags_only(installation: Installation) -> None:
    async with running_gateway(installation.settings("gateway")) as gateway:
        run_id = await gateway.submit("noop", tag="gpu")
        async with serving_worker(installation.settings("gpu"), tags=["gpu"]):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
    with pytest.raises(NatsUnavailable, match=r"CONSUMER.INFO.PYOCO_WORK.pyoco_worker_default"):
        await PyocoNatsWorker.connect(
            installation.settings("gpu"), flow_resolver=lambda _: None, tags=["default"], timeout_sec=3
        )


# What a worker must not be able to do


async def request(client: Client, subject: str, payload: bytes = b"") -> dict[str, Any] | None:
    """The answer of the server; None when it did not take the request at all."""
    try:
        reply = await client.request(subject, payload, timeout=1)
    except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
        return None
    answer: dict[str, Any] = json.loads(reply.data or b"{}")
    return answer


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (KEY, b"{}"),
        ("$KV.pyoco_auth.used.x", b"{}"),
        ("$KV.pyoco_leases.secret_cursors", b"{}"),
        ("$KV.pyoco_bulk.x", b"{}"),
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
        ("$JS.API.DIRECT.GET.KV_pyoco_auth", b'{"seq": 1}'),
        (f"$JS.API.DIRECT.GET.KV_pyoco_auth.{KEY}", b""),
        ("$JS.API.DIRECT.GET.KV_pyoco_runs", b'{"next_by_subj": ">", "batch": 100}'),
        ("$JS.API.DIRECT.GET.KV_pyoco_runs.$KV.pyoco_runs.x", b""),
        ("$JS.API.CONSUMER.CREATE.KV_pyoco_auth", b'{"stream_name": "KV_pyoco_auth", "config": {}}'),
        ("$JS.API.CONSUMER.DURABLE.CREATE.PYOCO_WORK.mine", b"{}"),
        ("$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco_worker_default", b""),
    ],
)
async def test_a_worker_s_credentials_do_not_do_what_is_not_a_worker_s(
    installation: Installation, subject: str, payload: bytes
) -> None:
    await new_key(installation.settings("admin"))
    async with installation.client("worker") as (worker, _):
        assert await request(worker, subject, payload) is None
    async with installation.client("admin") as (admin, _):
        assert await request(admin, "$JS.API.STREAM.INFO.PYOCO_WORK") is not None
        auth = await admin.jetstream().stream_info("KV_pyoco_auth")
        assert auth.state.messages == 1


async def test_what_a_worker_can_see_of_others_is_what_the_page_says(installation: Installation) -> None:
    """Permissions are for subjects: who may ask for its own run can ask for all of them."""
    async with running_gateway(installation.settings("gateway")) as gateway:
        run_id = await gateway.submit("noop", tag="gpu", params={"seen": "by all"})
        async with installation.client("worker") as (worker, _):
            everything = b'{"subjects_filter": ">"}'
            listed = await request(worker, "$JS.API.STREAM.INFO.KV_pyoco_runs", everything)
            job = await request(worker, "$JS.API.STREAM.MSG.GET.PYOCO_WORK", b'{"seq": 1}')
    assert listed is not None
    assert list(listed["state"]["subjects"]) == [f"$KV.pyoco_runs.{run_id}"]
    assert job is not None
    assert b"by all" in base64.b64decode(job["message"]["data"])
    page = (Path(__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    assert "to list all runs and to read the `params` of every run and of every queued job" in page


async def test_the_same_requests_are_answered_to_an_administrator(installation: Installation) -> None:
    """So that the test above does not pass because of a typing mistake."""
    async with installation.client("admin") as (admin, _):
        for subject, payload in (
            (KEY, b"{}"),
            ("$JS.API.STREAM.PURGE.KV_pyoco_auth", b""),
            ("$JS.API.STREAM.MSG.GET.KV_pyoco_auth", b'{"seq": 1}'),
            ("$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco_worker_default", b""),
        ):
            assert await request(admin, subject, payload) is not None, subject


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        ("$JS.API.DIRECT.GET.PYOCO_JOURNAL", b'{"next_by_subj": "pyoco.journal.mine", "seq": 1}'),
        ("$JS.API.STREAM.MSG.GET.PYOCO_JOURNAL", b'{"last_by_subj": "pyoco.journal.mine"}'),
        ("$JS.API.STREAM.INFO.PYOCO_JOURNAL", b""),
        ("pyoco.journal.mine", b"an acknowledgement is an answer too"),
    ],
)
@pytest.mark.parametrize("target", [KEY, "$JS.API.STREAM.PURGE.KV_pyoco_auth", "pyoco.work.default"])
async def test_an_answer_cannot_be_sent_where_the_worker_may_not_write(
    installation: Installation, subject: str, payload: bytes, target: str
) -> None:
    """The server answers with its own rights: within one account, this would forge a key."""
    await new_key(installation.settings("admin"))
    async with installation.client("worker") as (worker, _), installation.client("admin") as (admin, _):
        await worker.publish("pyoco.journal.mine", b'{"filter": ">"}')
        await worker.publish(subject, payload, reply=target)
        await worker.flush()
        assert await request(worker, "$JS.API.STREAM.INFO.PYOCO_JOURNAL") is not None, "all of it has arrived"
        auth = await admin.jetstream().stream_info("KV_pyoco_auth", subjects_filter=">")
        assert auth.state.messages == 1
        assert KEY not in (auth.state.subjects or {})
        assert (await admin.jetstream().stream_info("PYOCO_WORK")).state.messages == 0


async def test_within_one_account_it_would(installation: Installation) -> None:
    """Why workers have an account of their own: this is what permissions alone do not prevent."""
    async with (
        installation.client("gateway") as (gateway, complaints),
        installation.client("admin") as (admin, _),
    ):
        await gateway.publish(KEY, b"forged")
        await gateway.publish("pyoco.journal.mine", b"forged")
        direct = "$JS.API.DIRECT.GET.PYOCO_JOURNAL.pyoco.journal.mine"
        await gateway.publish(direct, b"", reply=KEY)
        await gateway.flush()

        async def stored() -> bool:
            return bool((await admin.jetstream().stream_info("KV_pyoco_auth")).state.messages == 1)

        await eventually(stored, within=5, describe="the forged record is there")
        assert [KEY.lower() in complaint for complaint in complaints] == [True], "the direct way was refused"


async def test_a_worker_hears_nothing_of_others(installation: Installation) -> None:
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
            await eventually(lambda: marker in heard, within=5, describe="what is for workers has come")
    assert {subject for subject in heard if not subject.startswith("_INBOX")} == {marker}


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.STREAM.DELETE.PYOCO_WORK",
        "$JS.API.STREAM.PURGE.KV_pyoco_auth",
        KEY,
        "$JS.API.STREAM.DELETE.KV_pyoco_auth",
    ],
)
async def test_a_gateway_s_user_deletes_nothing_and_makes_no_keys(
    installation: Installation, subject: str
) -> None:
    async with installation.client("gateway") as (gateway, complaints):
        assert await request(gateway, subject) is None
        assert [subject.lower() in complaint.lower() for complaint in complaints] == [True]


@pytest.mark.parametrize("how", ["all", "sub"])
@pytest.mark.parametrize(
    ("user", "subject", "bucket"),
    [
        ("worker", "$KV.pyoco_runs.mine", "KV_pyoco_runs"),
        ("worker", "$KV.pyoco_workers.mine", "KV_pyoco_workers"),
        ("gateway", "$KV.pyoco_auth.used.mine", "KV_pyoco_auth"),
    ],
)
async def test_no_record_is_written_that_erases_the_others(
    installation: Installation, user: str, subject: str, bucket: str, how: str
) -> None:
    """A message with `Nats-Rollup: all` replaces everything in a bucket that takes it."""
    async with installation.client("admin") as (admin, _), installation.client(user) as (client, _):
        await admin.jetstream().publish(f"{subject.rpartition('.')[0]}.another", b"{}")
        with pytest.raises(nats.js.errors.APIError, match="rollup"):
            await client.jetstream().publish(subject, b"{}", headers={"Nats-Rollup": how})
        await client.jetstream().publish(subject, b"{}")
        assert (await admin.jetstream().stream_info(bucket)).state.messages == 2


async def take_rollups(installation: Installation, *buckets: str) -> None:
    """As earlier versions made them."""
    async with installation.client("admin") as (admin, _):
        for bucket in buckets:
            made = (await admin.jetstream().stream_info(bucket)).config
            made.allow_rollup_hdrs, made.description = True, "of an administrator"
            await admin.jetstream().update_stream(made)


async def test_buckets_of_an_earlier_version_are_mended_by_nats_setup(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take_rollups(installation, "KV_pyoco_auth", "KV_pyoco_runs")
    known = installation.users["admin"]
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_NATS_URL", installation.server.url)
    monkeypatch.setenv("PYOCO_NATS_USER", known["user"])
    monkeypatch.setenv("PYOCO_NATS_PASSWORD", known["password"])
    result = await asyncio.to_thread(CliRunner().invoke, admin_app, ["nats-setup"])
    assert result.exit_code == 0, result.output
    async with installation.client("admin") as (admin, _):
        for bucket in ("KV_pyoco_auth", "KV_pyoco_runs"):
            mended = (await admin.jetstream().stream_info(bucket)).config
            assert (mended.allow_rollup_hdrs, mended.description) == (False, "of an administrator")


async def test_a_gateway_that_may_not_mend_them_says_so_and_works(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    await take_rollups(installation, "KV_pyoco_auth")
    async with running_gateway(installation.settings("gateway")) as gateway:
        assert (await gateway.http.get("/workers")).status_code == 200
    assert [text for text in caplog.messages if "KV_pyoco_auth" in text and "nats-setup" in text]


async def test_a_worker_says_which_stream_is_missing_that_it_may_not_make(installation: Installation) -> None:
    async with installation.client("admin") as (admin, _):
        await admin.jetstream().delete_stream("PYOCO_JOURNAL")
    with pytest.raises(NatsUnavailable, match=r"PYOCO_JOURNAL does not exist.*nats-setup"):
        await PyocoNatsWorker.connect(
            installation.settings("worker"), flow_resolver=lambda _: None, timeout_sec=3
        )
    async with connected(installation.settings("admin")):
        pass


async def test_a_refused_request_says_so_at_once(installation: Installation) -> None:
    connection = Connection(installation.settings("gateway"), name="test")
    connection.add_hook(lambda: ensure_resources(connection))
    await connection.start()
    try:
        await connection.wait_ready(5)
        async with asyncio.timeout(0.5):
            with pytest.raises(NatsForbidden, match="may not publish to") as caught:
                await connection.request("$JS.API.STREAM.DELETE.PYOCO_WORK")
        # Not an outage: waiting for NATS is no cure.
        assert str(caught.value).startswith("NATS does not allow this: ")
        assert "permissions" in caught.value.error.cure()
        assert caught.value.error.err_id == "ERR-PYOCO-0003"
    finally:
        await connection.close()


async def test_a_wrong_password_is_no_outage_either(installation: Installation) -> None:
    connection = Connection(replace(installation.settings("gateway"), nats_password="wrong"), name="test")
    await connection.start()
    try:
        await eventually(lambda: bool(connection.state.detail), within=5, describe="it was refused")
        assert isinstance(connection.unavailable(), NatsForbidden)
    finally:
        await connection.close()


# The command itself


def test_the_passwords_are_new_each_time_and_are_not_in_the_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    first, second = (
        CliRunner().invoke(admin_app, ["nats-config"]).stdout.partition("\naccounts: ") for _ in range(2)
    )
    passwords = [
        user["password"]
        for text in (first[2], second[2])
        for account in json.loads(text).values()
        for user in account["users"]
    ]
    assert len(set(passwords)) == len(passwords) == 6
    assert not any(password in first[0] + second[0] for password in passwords)
    assert all(len(password) >= 32 for password in passwords)


def test_a_file_is_its_owner_s_alone_and_none_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    path = tmp_path / "users.conf"
    result = CliRunner().invoke(admin_app, ["nats-config", "--file", str(path)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.stat().st_mode & 0o777 == 0o600
    written = path.read_text()
    assert "PYOCO_worker" in json.loads(written.partition("\naccounts: ")[2])
    again = CliRunner().invoke(admin_app, ["nats-config", "--file", str(path)])
    assert "wanted the path of a new file" in str(again.exception)
    assert path.read_text() == written


def test_it_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_RUNS_KV_BUCKET", "other_runs")
    monkeypatch.setenv("PYOCO_JOURNAL_SUBJECT_PREFIX", "other.journal")
    text = json.dumps(printed())
    assert "pyoco_runs" not in text
    assert "KV_other_runs" in text
    assert '"other.journal.*"' in text


def test_given_keys_and_hashes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    public = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)).public_key.decode()
    hashed = "$2a$11$" + "x" * 53
    accounts = printed("--nkey", f"worker={public}", "--password-hash", f"gateway={hashed}")
    assert accounts["PYOCO_worker"]["users"] == [{"nkey": public}]
    assert [user.get("password") for user in accounts["PYOCO"]["users"]][1] == hashed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--worker", "a.b"], "--worker"),
        (["--worker", "gateway"], "neither gateway nor admin"),
        (["--worker", "w", "--worker", "w=x"], "each name once"),
        (["--nkey", "nobody=UA"], "one of the users gateway, admin, worker"),
        (["--nkey", "worker=SUASECRETSEED"], "a public nkey"),
        (["--password-hash", "worker=plain-password"], "a bcrypt hash"),
    ],
)
def test_a_bad_argument_is_refused_without_repeating_a_secret(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    result = CliRunner().invoke(admin_app, ["nats-config", *arguments])
    assert result.exit_code != 0
    assert says in str(result.exception)
    assert "SECRETSEED" not in str(result.exception)
    assert "plain-password" not in str(result.exception)


def test_setup_makes_the_streams_and_the_queues(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    for _ in range(2):
        arguments = ["nats-setup", "--tag", "gpu", "--tag", "cpu", "--nats-url", config.nats_url]
        result = CliRunner().invoke(admin_app, arguments)
        assert result.exit_code == 0, result.output
        assert "gpu, cpu" in result.stdout

    async def consumers() -> set[str]:
        async with connected(config) as connection:
            found = await connection.client.jetstream().consumers_info("PYOCO_WORK")
            return {consumer.name for consumer in found}

    assert asyncio.run(consumers()) == {"pyoco_worker_gpu", "pyoco_worker_cpu"}
