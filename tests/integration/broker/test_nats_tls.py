"""Users, keys and certificates: how we log in to NATS, and which NATS we trust."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nkeys
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.credentials import connect_options, on_own_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, NatsUnavailable
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer, SecuredNats
from tests.support.broker.nats_ways import WAYS, use
from tests.support.running.gateway import running_gateway
from tests.support.running.workers import serving_worker
from tests.support.samples.certificates import Certificates
from tests.support.waiting import eventually

SECRET = "a-password-that-nobody-sees"

Start = Callable[..., SecuredNats]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server with these parts of a configuration."""
    started: list[SecuredNats] = []

    def new(**options: Any) -> SecuredNats:
        options = {"accounts": {}, **options}
        server = SecuredNats(tmp_path / f"server-{len(started)}", **options)
        server.start()
        started.append(server)
        return server

    yield new
    for server in started:
        server.stop()


def on(server: NatsServer, config: NatsBackendConfig, **changes: Any) -> NatsBackendConfig:
    return replace(config, nats_url=server.url, **changes)


def with_file(config: NatsBackendConfig, field: str, path: str) -> NatsBackendConfig:
    changes: dict[str, Any] = {field: path}
    return replace(config, **changes)


async def why_not(config: NatsBackendConfig) -> str:
    """What a connection that cannot be made says."""
    async with connected(config, with_resources=False, ready=False) as connection:
        await eventually(lambda: connection.state.detail, describe="the first try has failed")
        with pytest.raises(NatsUnavailable) as caught:
            await connection.wait_ready(0)
    return str(caught.value)


async def test_runs_go_over_tls_with_a_client_certificate(
    config: NatsBackendConfig, certificates: Certificates, start: Start
) -> None:
    server = start(tls=certificates.server_options(ca_file=certificates.ca, verify=True))
    certificate, key = certificates.client
    settings = on(
        server,
        config,
        nats_tls_ca_file=certificates.ca,
        nats_tls_cert_file=certificate,
        nats_tls_key_file=key,
    )
    async with running_gateway(settings) as gateway, serving_worker(settings):
        assert (await gateway.ends(await gateway.submit("chain")))["status"] == "COMPLETED"
        assert gateway.inside.connection.client.uses_tls
    without = replace(settings, nats_tls_cert_file="", nats_tls_key_file="")
    assert "NATS" in await why_not(without)


async def test_a_server_of_another_authority_is_not_trusted(
    config: NatsBackendConfig, certificates: Certificates, start: Start, tmp_path: Path
) -> None:
    server = start(tls=certificates.server_options())
    other = Certificates(tmp_path / "other")
    assert "certificate verify failed" in await why_not(on(server, config, nats_tls_ca_file=other.ca))
    assert "certificate verify failed" in await why_not(
        replace(config, nats_url=server.url.replace("nats://", "tls://"))
    )


@pytest.mark.parametrize("way", WAYS)
async def test_required_tls_is_not_replaced_by_a_plain_connection(
    config: NatsBackendConfig,
    certificates: Certificates,
    start: Start,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A man in the middle could announce a server without TLS, and would get the password."""
    use(way, monkeypatch)
    server = start(authorization={"users": [{"user": "u", "password": SECRET}]})
    settings = on(server, config, nats_user="u", nats_password=SECRET)
    async with connected(settings, with_resources=False):
        pass
    for requires_tls in (
        replace(settings, nats_url=server.url.replace("nats://", "tls://")),
        replace(settings, nats_tls_ca_file=certificates.ca),
    ):
        assert "does not offer TLS" in await why_not(requires_tls)


async def test_a_user_and_a_password_of_the_settings(
    config: NatsBackendConfig, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start(authorization={"users": [{"user": "u", "password": SECRET}]})
    settings = on(server, config, nats_user="u", nats_password=SECRET)
    async with running_gateway(settings) as gateway:
        await gateway.submit("noop")
        assert SECRET not in (await gateway.http.get("/health")).text
    complaint = await why_not(replace(settings, nats_password=f"{SECRET}-wrong"))
    # A server that has refused hangs up, which may be the last that is known.
    assert "Authorization Violation" in caplog.text
    assert SECRET not in complaint
    assert SECRET not in caplog.text
    assert SECRET not in repr(settings)


async def test_an_nkey_and_a_creds_file(
    config: NatsBackendConfig, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    seed_file = tmp_path / "user.nk"
    seed_file.write_bytes(seed + b"\n")
    server = start(authorization={"users": [{"nkey": public}]})
    async with connected(on(server, config, nats_nkey_seed_file=str(seed_file)), with_resources=False):
        pass
    await why_not(on(server, config))
    assert "Authorization Violation" in caplog.text
    creds = tmp_path / "user.creds"
    creds.write_text(
        "-----BEGIN NATS USER JWT-----\nno.real.token\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed.decode()}\n------END USER NKEY SEED------\n"
    )
    assert connect_options(replace(config, nats_url=server.url, nats_creds_file=str(creds))) == {
        "user_credentials": str(creds)
    }


@pytest.mark.parametrize("field", ["nats_nkey_seed_file", "nats_creds_file", "nats_tls_ca_file"])
async def test_a_missing_or_wrong_file_is_an_error_at_start(
    config: NatsBackendConfig, start: Start, tmp_path: Path, field: str
) -> None:
    config = replace(config, nats_url="nats://127.0.0.1:1")
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigError, match="expected a file that can be read") as caught:
        Connection(with_file(config, field, missing), name="test")
    assert f"PYOCO_{field.upper()}" in str(caught.value)
    assert missing in str(caught.value)
    wrong = tmp_path / "wrong"
    wrong.write_text(SECRET)
    with pytest.raises(ConfigError) as caught:
        Connection(with_file(config, field, str(wrong)), name="test")
    assert f"PYOCO_{field.upper()}" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_key_that_does_not_belong_to_its_certificate_is_refused(
    config: NatsBackendConfig, certificates: Certificates
) -> None:
    config = replace(
        config,
        nats_tls_cert_file=certificates.client[0],
        nats_tls_key_file=certificates.server[1],
    )
    with pytest.raises(ConfigError, match="belongs to PYOCO_NATS_TLS_KEY_FILE"):
        connect_options(config)


def test_a_missing_nkeys_package_is_reported_with_the_cure(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_file = tmp_path / "user.nk"
    seed_file.write_bytes(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER))
    monkeypatch.setattr("pyoco_server.broker.client.credentials.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'pyoco-server\[nkeys\]'"):
        connect_options(replace(config, nats_url="nats://127.0.0.1:1", nats_nkey_seed_file=str(seed_file)))


def test_the_embedded_server_needs_no_credentials() -> None:
    config = NatsBackendConfig(nats_user="u", nats_password=SECRET, nats_tls_ca_file="/nowhere")
    own = on_own_server(config, "nats://127.0.0.1:4222")
    assert own == NatsBackendConfig()
    assert connect_options(own) == {}


def test_tls_verifies_the_host_name(config: NatsBackendConfig, certificates: Certificates) -> None:
    context = connect_options(replace(config, nats_tls_ca_file=certificates.ca))["tls"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
