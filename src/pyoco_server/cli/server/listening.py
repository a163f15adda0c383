"""Addresses to listen on, taken before anything else starts: a busy one then stops the command at once."""

import errno
import socket
from contextlib import closing
from typing import Final

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.system.loopback import is_loopback

USUAL_PORT: Final = 8000
USUAL_NATS_PORT: Final = 4222

_BACKLOG = 2048
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a client on this machine finds it


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A socket that listens there; InvalidCliArgument says why there can be none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidCliArgument(_why_not(host, port, option, error)) from error


def http_url(bound: socket.socket, *, scheme: str = "http") -> str:
    host, port = bound.getsockname()[:2]
    host = _ANY_ADDRESS.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def open_to_others(host: str, config: NatsBackendConfig) -> str:
    """What to say of a gateway that others reach although it asks for no key; empty when it is not one."""
    if config.http_auth_mode != "none" or is_loopback(host):
        return ""
    return (
        f"everybody who reaches {host} may use this gateway, and run code on its workers: it asks for no "
        "API key. Set PYOCO_HTTP_AUTH_MODE=api_key, or listen on 127.0.0.1."
    )


def choose_port(host: str, asked_for: int | None, usual: int, *, option: str) -> int:
    """The port that was asked for; else the usual one, or a free one when that is taken."""
    if asked_for is not None:
        return _free_port(host, asked_for, option)
    try:
        return _free_port(host, usual, option)
    except InvalidCliArgument:
        return _free_port(host, 0, option)


def _free_port(host: str, port: int, option: str) -> int:
    with closing(listen(host, port, option=option)) as bound:
        return int(bound.getsockname()[1])


def _why_not(host: str, port: int, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is used by another program; stop that program, or choose another port "
            f"with {option}"
        )
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {port} of {host}; choose one above 1023 with {option}"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"
