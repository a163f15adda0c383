"""The command that adds a worker to an installation."""

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.joining_worker import is_local, needs_credentials, worker_command

PLAIN = "pyoco-worker --flows ./flows --nats-url"


def settings(**fields: str) -> NatsBackendConfig:
    return NatsBackendConfig(load_dotenv=False, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "command", "has_placeholders"),
    [
        ({}, f"{PLAIN} nats://127.0.0.1:4222", False),
        ({"nats_url": "nats://a:4222,nats://b:4222"}, f"{PLAIN} nats://a:4222,nats://b:4222", False),
        ({"default_tag": "gpu"}, f"{PLAIN} nats://127.0.0.1:4222 --tag gpu", False),
        (
            {"nats_url": "nats://gw:s3cret@nats.example:4222"},
            f"{PLAIN} nats://USER:PASSWORD@nats.example:4222",
            True,
        ),
        (
            {"nats_url": "tls://n:4222", "nats_user": "gw", "nats_password": "s3cret"},
            f"PYOCO_NATS_USER=USER PYOCO_NATS_PASSWORD=PASSWORD {PLAIN} tls://n:4222",
            True,
        ),
        (
            {"nats_creds_file": "/etc/s3cret.creds"},
            f"PYOCO_NATS_CREDS_FILE=/path/to/worker.creds {PLAIN} nats://127.0.0.1:4222",
            True,
        ),
    ],
)
def test_the_command_has_placeholders_instead_of_secrets(
    given: dict[str, str], command: str, has_placeholders: bool
) -> None:
    config = settings(**given)
    assert worker_command(config) == command
    assert needs_credentials(config) is has_placeholders
    assert "s3cret" not in worker_command(config)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("nats://127.0.0.1:4222", True),
        ("nats://localhost:4222", True),
        ("nats://[::1]:4222", True),
        ("nats://u:p@127.0.0.1:4222", True),
        ("nats://nats.example:4222", False),
        ("nats://127.0.0.1:4222,nats://nats.example:4222", False),
    ],
)
def test_a_loopback_address_is_local(url: str, local: bool) -> None:
    assert is_local(settings(nats_url=url)) is local
