"""With the rights that `nats-config` gives: what a part may not do, and what is missing, is said at once."""

import asyncio
from dataclasses import replace

import nats.errors
import pytest
from typer.testing import CliRunner

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.worker import PyocoNatsWorker
from tests.support.broker.connections import connected
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import Installation, installation, started
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


async def take_rollups(installation: Installation, *buckets: str) -> None:
    """As earlier versions made them."""
    async with installation.client("admin") as (admin, _):
        for bucket in buckets:
            made = (await admin.jetstream().stream_info(bucket)).config
            made.allow_rollup_hdrs, made.description = True, "of an administrator"
            await admin.jetstream().update_stream(made)


async def test_nats_setup_updates_buckets_of_an_earlier_version(
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
            updated = (await admin.jetstream().stream_info(bucket)).config
            assert (updated.allow_rollup_hdrs, updated.description) == (False, "of an administrator")


async def test_a_gateway_without_the_right_to_update_them_warns_and_works(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    await take_rollups(installation, "KV_pyoco_auth")
    async with running_gateway(installation.settings("gateway")) as gateway:
        assert (await gateway.http.get("/workers")).status_code == 200
    assert [
        text for text in caplog.messages if "KV_pyoco_auth" in text and "pyoco-server-admin adopt" in text
    ]


async def test_a_worker_reports_a_missing_stream_that_it_may_not_create(installation: Installation) -> None:
    async with installation.client("admin") as (admin, _):
        await admin.jetstream().delete_stream("PYOCO_JOURNAL")
    with pytest.raises(NatsUnavailable, match=r"PYOCO_JOURNAL does not exist.*nats-setup"):
        await PyocoNatsWorker.connect(
            installation.settings("worker"), flow_resolver=lambda _: None, timeout_sec=3
        )
    async with connected(installation.settings("admin")):
        pass


async def test_a_denied_request_fails_at_once(installation: Installation) -> None:
    async with connected(installation.settings("gateway")) as connection:
        with pytest.raises(NatsForbidden, match="may not publish to") as caught:
            await connection.request("$JS.API.STREAM.DELETE.PYOCO_WORK")
    # Not an outage: waiting for NATS is no cure.
    assert str(caught.value).startswith("NATS does not allow this: ")
    assert "permissions" in caught.value.error.cure()
    assert caught.value.error.err_id == "ERR-PYOCO-0003"


async def test_a_hang_up_does_not_hide_the_refusal(config: NatsBackendConfig) -> None:
    """nats-py reports both; how the connection ends depends on the speed of either side."""
    connection = Connection(config, name="test")
    refusal = nats.errors.Error("nats: 'Authorization Violation'")
    reset = ConnectionResetError(104, "Connection reset by peer")
    for hanging_up in (reset, BrokenPipeError(32, "Broken pipe")):
        await connection._on_error(refusal)
        await connection._on_error(hanging_up)
        assert isinstance(connection.unavailable(), NatsForbidden)
    await connection._on_error(reset)
    assert not isinstance(connection.unavailable(), NatsForbidden), "once more, and without a refusal"
    await connection._on_error(refusal)
    await connection._on_error(ConnectionRefusedError(111, "Connect call failed"))
    assert not isinstance(connection.unavailable(), NatsForbidden), "now there is no server"


async def test_a_hook_that_lacks_a_right_is_reported_as_forbidden(installation: Installation) -> None:
    async with connected(installation.settings("gateway"), with_resources=False, ready=False) as connection:
        connection.on_connect(lambda: connection.request("$JS.API.STREAM.DELETE.PYOCO_WORK"))
        await eventually(lambda: "this user may not" in connection.state.detail, describe="it was refused")
        with pytest.raises(NatsForbidden, match="may not publish to"):
            await connection.wait_ready(0)


@pytest.mark.parametrize("name", ["authentication-service", "authorization violation", "this user may not"])
async def test_names_of_users_do_not_look_like_a_refusal(config: NatsBackendConfig, name: str) -> None:
    """A worker retries while NATS does not answer, and stops when it is refused."""
    unavailable = Connection(config, name="test").unavailable(f"no answer within 1 s on pyoco.work.{name}")
    assert not isinstance(unavailable, NatsForbidden)


async def test_a_wrong_password_is_reported_as_forbidden(installation: Installation) -> None:
    settings = replace(installation.settings("gateway"), nats_password="wrong")
    async with connected(settings, ready=False) as connection:
        await eventually(lambda: bool(connection.state.detail), describe="it was refused")
        assert isinstance(connection.unavailable(), NatsForbidden)
