"""Users, keys and certificates for the connection to NATS, by the settings.

Files are checked before the first connection, so that a wrong path is an error at start.
"""

import ssl
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, FieldProblem, shortened

# The settings that do not apply to the embedded server.
CREDENTIALS: Final = (
    "nats_user",
    "nats_password",
    "nats_nkey_seed_file",
    "nats_creds_file",
    "nats_tls_ca_file",
    "nats_tls_cert_file",
    "nats_tls_key_file",
)

_SEED: Final = "an nkey seed (SU...)"
_CREDS: Final = "a .creds file with a user's JWT and seed"


def connect_options(config: NatsBackendConfig) -> dict[str, Any]:
    """Options of nats-py's `connect`; ConfigError when a file is unusable."""
    options: dict[str, Any] = {}
    if config.nats_user:
        options |= {"user": config.nats_user, "password": config.nats_password}
    if config.nats_nkey_seed_file:
        _check_key_file("PYOCO_NATS_NKEY_SEED_FILE", config.nats_nkey_seed_file, _SEED, starts=b"SU")
        options["nkeys_seed"] = config.nats_nkey_seed_file
    if config.nats_creds_file:
        _check_key_file("PYOCO_NATS_CREDS_FILE", config.nats_creds_file, _CREDS, has=b"USER NKEY SEED")
        options["user_credentials"] = config.nats_creds_file
    if tls_required(config):
        options["tls"] = _tls_context(config)
    return options


def on_own_server(config: NatsBackendConfig, url: str) -> NatsBackendConfig:
    """The settings for the embedded server, which has neither users nor TLS."""
    none: dict[str, Any] = dict.fromkeys(CREDENTIALS, "")
    return replace(config, nats_url=url, **none)


def tls_required(config: NatsBackendConfig) -> bool:
    """Whether to refuse a server without TLS: a man in the middle could announce one."""
    schemes = {urlsplit(url).scheme for url in config.nats_servers}
    return bool(config.nats_tls_ca_file or config.nats_tls_cert_file or schemes & {"tls", "wss"})


def _tls_context(config: NatsBackendConfig) -> ssl.SSLContext:
    if config.nats_tls_ca_file:
        _read("PYOCO_NATS_TLS_CA_FILE", config.nats_tls_ca_file)
    try:
        context = ssl.create_default_context(cafile=config.nats_tls_ca_file or None)
    except ssl.SSLError as error:
        raise _unusable(
            "PYOCO_NATS_TLS_CA_FILE", config.nats_tls_ca_file, f"certificates in PEM ({error})"
        ) from error
    if config.nats_tls_cert_file:
        load_certificate(
            context,
            ("PYOCO_NATS_TLS_CERT_FILE", config.nats_tls_cert_file),
            ("PYOCO_NATS_TLS_KEY_FILE", config.nats_tls_key_file),
        )
    return context


def load_certificate(context: ssl.SSLContext, cert: tuple[str, str], key: tuple[str, str]) -> None:
    """Load a certificate and its key; each is a setting and its file."""
    for setting, path in (cert, key):
        _read(setting, path)
    try:
        # Otherwise OpenSSL prompts for a password.
        context.load_cert_chain(cert[1], key[1], password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        setting, path = cert
        expected = f"a certificate in PEM that belongs to {key[0]}, with a key without a password ({error})"
        raise _unusable(setting, path, expected) from error


def _check_key_file(setting: str, path: str, expected: str, *, starts: bytes = b"", has: bytes = b"") -> None:
    content = _read(setting, path)
    if not content.strip().startswith(starts) or has not in content:
        raise _unusable(setting, path, expected)
    if find_spec("nkeys") is None:
        raise _unusable(setting, path, "the package nkeys beside it: pip install 'pyoco-server[nkeys]'")


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unusable(setting, path, f"a file that can be read ({error.strerror or error})") from error


def _unusable(setting: str, path: str, expected: str) -> ConfigError:
    # The path, never the content of the file.
    return ConfigError(problems=[FieldProblem(setting, f"expected {expected}", value=shortened(path, 200))])
