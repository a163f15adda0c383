"""Calls to the JetStream API: stream and consumer management.

nats-py's own calls use `asyncio.wait_for`, which can swallow a cancellation on Python 3.11: a program that
shuts down during a reconnect would hang.
"""

from typing import Any

import msgspec
from nats.js.api import ConsumerConfig, StreamConfig

from pyoco_server.broker.client.connection import Connection, NoResponders

NOT_FOUND = 404
# A stream or consumer of this name exists with another configuration.
_ALREADY_EXISTS = {10058, 10148, 10105}
# A work queue has a consumer for the same messages, under another name.
_NOT_UNIQUE = {10099, 10100}
_NO_SUCH_MESSAGE = 10057
# The server does not reserve more bytes than its disk has.
_NO_STORAGE = 10047


class ConsumerGone(Exception):
    """The server refuses the pull: the consumer was deleted, or its leader is moving."""


class ApiRefused(Exception):
    """The server replied with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = error.get("code", 0)
        self.err_code = error.get("err_code", 0)
        description = error.get("description", "no description")
        if self.err_code == _NO_STORAGE:
            description += (
                "; free disk space on the NATS server, or lower PYOCO_DLQ_MAX_BYTES, "
                "PYOCO_RUN_LOG_MAX_BYTES, PYOCO_EVENT_MAX_BYTES, PYOCO_AUDIT_MAX_BYTES, "
                "PYOCO_AUDIT_LOG_MAX_BYTES or PYOCO_HOOK_DELIVERY_MAX_BYTES"
            )
        super().__init__(description)


class NotUnique(ApiRefused):
    """Another consumer of the work queue takes the same messages."""


async def ensure_stream(connection: Connection, config: StreamConfig) -> dict[str, Any]:
    """Create the stream if it is missing; return the configuration that applies."""
    info = await _ensure(
        connection, f"STREAM.INFO.{config.name}", f"STREAM.CREATE.{config.name}", config.as_dict()
    )
    return dict(info["config"])


async def ensure_consumer(connection: Connection, stream: str, config: ConsumerConfig) -> dict[str, Any]:
    """Create the durable consumer if it is missing; return its info. NotUnique if there is another one."""
    name = config.durable_name
    request = {"stream_name": stream, "config": config.as_dict(), "action": "create"}
    return await _ensure(
        connection, f"CONSUMER.INFO.{stream}.{name}", f"CONSUMER.DURABLE.CREATE.{stream}.{name}", request
    )


async def purge(connection: Connection, stream: str, subject: str, *, upto: int | None = None) -> None:
    """Remove every message on the subject, or those up to a sequence."""
    which: dict[str, object] = {"filter": subject} if upto is None else {"filter": subject, "seq": upto + 1}
    try:
        await call(connection, f"STREAM.PURGE.{stream}", which)
    except ApiRefused as refused:
        raise connection.unavailable(f"{stream}: {refused}") from refused


async def delete_message(connection: Connection, stream: str, sequence: int) -> None:
    """Remove one message, if it exists."""
    try:
        await call(connection, f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True})
    except ApiRefused as refused:
        if refused.err_code != _NO_SUCH_MESSAGE:
            raise connection.unavailable(f"{stream}: {refused}") from refused


async def call(connection: Connection, endpoint: str, body: object = None) -> dict[str, Any]:
    """One API call; ApiRefused carries the server's error."""
    payload = b"" if body is None else msgspec.json.encode(body)
    reply = await connection.request(f"$JS.API.{endpoint}", payload)
    response: dict[str, Any] = msgspec.json.decode(reply.data)
    if "error" in response:
        error = response["error"]
        raise (NotUnique if error.get("err_code") in _NOT_UNIQUE else ApiRefused)(error)
    return response


async def _ensure(connection: Connection, info: str, create: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        try:
            return await call(connection, info)
        except ApiRefused as refused:
            if refused.code != NOT_FOUND:
                raise
        try:
            return await call(connection, create, body)
        except ApiRefused as refused:
            if refused.err_code not in _ALREADY_EXISTS:
                raise
        except NoResponders as nobody:
            name = create.rpartition(".")[2]
            raise connection.unavailable(
                f"{name} does not exist, and this user of NATS may not create it; start a gateway first, "
                "or create it with `pyoco-server-admin nats-setup`"
            ) from nobody
        # Another gateway or worker created it in the same moment.
        return await call(connection, info)
    except NotUnique:
        raise
    except ApiRefused as refused:
        raise connection.unavailable(f"{create}: {refused}") from refused
