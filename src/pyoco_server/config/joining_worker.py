"""The command that adds a worker to this installation, with placeholders for its own credentials."""

import shlex
from typing import Final
from urllib.parse import urlsplit

from pyoco_server.config.setting import is_loopback, safe_url, split_urls
from pyoco_server.config.settings_table import NatsBackendConfig

# What a worker needs of its own where the gateway has it, and how that looks in the command.
_PLACEHOLDERS: Final = {
    "nats_user": "USER",
    "nats_password": "PASSWORD",
    "nats_nkey_seed_file": "/path/to/worker.nk",
    "nats_creds_file": "/path/to/worker.creds",
    "nats_tls_ca_file": "/path/to/ca.pem",
    "nats_tls_cert_file": "/path/to/worker.pem",
    "nats_tls_key_file": "/path/to/worker-key.pem",
}
_DEFAULT_TAG: Final = "default"


def worker_command(config: NatsBackendConfig) -> str:
    """A line for a shell. It has no secret of the gateway."""
    variables = [
        f"PYOCO_{name.upper()}={value}" for name, value in _PLACEHOLDERS.items() if getattr(config, name)
    ]
    options = ["--flows", "./flows", "--nats-url", shlex.quote(_url_with_placeholders(config.nats_url))]
    if config.default_tag != _DEFAULT_TAG:
        options += ["--tag", config.default_tag]
    return " ".join([*variables, "pyoco-worker", *options])


def needs_credentials(config: NatsBackendConfig) -> bool:
    """Whether the command has placeholders."""
    in_url = safe_url(config.nats_url) != config.nats_url
    return in_url or any(getattr(config, name) for name in _PLACEHOLDERS)


def is_local(config: NatsBackendConfig) -> bool:
    """Whether the address is one of this machine, which workers elsewhere do not reach."""
    return all(is_loopback(urlsplit(url).hostname or "") for url in split_urls(safe_url(config.nats_url)))


def _url_with_placeholders(urls: str) -> str:
    return ",".join(
        url if safe_url(url) == url else safe_url(url).replace("://", "://USER:PASSWORD@", 1)
        for url in split_urls(urls)
    )
