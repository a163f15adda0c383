"""The gateway's listening address and certificate, checked before anything else starts."""

import errno
import socket
import ssl
from contextlib import closing
from typing import Annotated, Final

from pyoco_server.broker.client.credentials import load_certificate
from pyoco_server.cli.options.shared_options import option
from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.setting import is_loopback
from pyoco_server.errors import InvalidCliArgument

DEFAULT_PORT: Final = 8000
DEFAULT_NATS_PORT: Final = 4222

Host = Annotated[str, option("Address to listen on.", "ADDRESS")]

_BACKLOG = 2048
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the address for a client on this machine


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A listening socket; InvalidCliArgument when the address cannot be used."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidCliArgument(_listen_error(host, port, option, error)) from error


def http_url(bound: socket.socket, *, scheme: str = "http") -> str:
    host, port = bound.getsockname()[:2]
    host = _ANY_ADDRESS.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def open_access_warning(host: str, config: NatsBackendConfig) -> str:
    """The warning about a gateway that others can reach without an API key; empty if it does not apply."""
    if config.http_auth_mode != "none" or is_loopback(host):
        return ""
    return (
        f"anyone who can reach {host} can use this gateway and run code on its workers: it does not "
        "require an API key. Set PYOCO_HTTP_AUTH_MODE=api_key, or listen on 127.0.0.1."
    )


def choose_port(host: str, requested: int | None, default: int, *, option: str) -> int:
    """The requested port; otherwise the default port, or a free one when that is in use."""
    if requested is not None:
        return _free_port(host, requested, option)
    try:
        return _free_port(host, default, option)
    except InvalidCliArgument:
        return _free_port(host, 0, option)


def _free_port(host: str, port: int, option: str) -> int:
    with closing(listen(host, port, option=option)) as bound:
        return int(bound.getsockname()[1])


def _listen_error(host: str, port: int, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use by another program; stop that program, or choose another port "
            f"with {option}"
        )
    if error.errno == errno.EACCES:
        return f"no permission to listen on port {port} of {host}; choose one above 1023 with {option}"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"


def https_files(config: NatsBackendConfig) -> tuple[str, str] | None:
    """The certificate file and its key file; None for plain HTTP. ConfigError when they cannot be used."""
    if not config.http_tls_cert_file:
        return None
    load_certificate(
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ("PYOCO_HTTP_TLS_CERT_FILE", config.http_tls_cert_file),
        ("PYOCO_HTTP_TLS_KEY_FILE", config.http_tls_key_file),
    )
    return config.http_tls_cert_file, config.http_tls_key_file
