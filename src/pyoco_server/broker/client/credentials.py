"""Who we are to NATS, and whom we take for NATS: users, keys and certificates, by the settings.

Files are looked at before the first connection, so that a wrong path is an error at the start, and not a
connection that never comes.
"""

import ssl
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, FieldProblem, shortened

# The settings that say how to log in to a server, and which server to trust.
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
    """What nats-py is to be told beside the address; ConfigError when a file is not of use."""
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
    """The settings for the embedded server, which is on this machine and knows neither users nor TLS."""
    none: dict[str, Any] = dict.fromkeys(CREDENTIALS, "")
    return replace(config, nats_url=url, **none)


def tls_required(config: NatsBackendConfig) -> bool:
    """Whether to talk to a server with TLS only: an attacker on the way could say that it has none."""
    schemes = {urlsplit(url).scheme for url in config.nats_servers}
    return bool(config.nats_tls_ca_file or config.nats_tls_cert_file or schemes & {"tls", "wss"})


def _tls_context(config: NatsBackendConfig) -> ssl.SSLContext:
    if config.nats_tls_ca_file:
        _read("PYOCO_NATS_TLS_CA_FILE", config.nats_tls_ca_file)
    try:
        context = ssl.create_default_context(cafile=config.nats_tls_ca_file or None)
    except ssl.SSLError as error:
        raise _wrong(
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
    """Have the context show a certificate; each is a setting and the file it names."""
    for setting, path in (cert, key):
        _read(setting, path)
    try:
        # A password would be asked for on the terminal.
        context.load_cert_chain(cert[1], key[1], password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        setting, path = cert
        wanted = f"a certificate in PEM that belongs to {key[0]}, with a key without a password ({error})"
        raise _wrong(setting, path, wanted) from error


def _check_key_file(setting: str, path: str, wanted: str, *, starts: bytes = b"", has: bytes = b"") -> None:
    content = _read(setting, path)
    if not content.strip().startswith(starts) or has not in content:
        raise _wrong(setting, path, wanted)
    if find_spec("nkeys") is None:
        raise _wrong(setting, path, "the package nkeys beside it: pip install 'pyoco-server[nkeys]'")


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _wrong(setting, path, f"a file that can be read ({error.strerror or error})") from error


def _wrong(setting: str, path: str, wanted: str) -> ConfigError:
    # The path, never what is in the file.
    return ConfigError(problems=[FieldProblem(setting, f"wanted {wanted}", value=shortened(path, 200))])
