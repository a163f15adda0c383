"""Requests with many replies, without a server."""

import asyncio
from collections.abc import Mapping

import pytest

from pyoco_server.aio.loop_batches import LOOP_BATCH
from pyoco_server.broker.client.connection import Connection, ConnectionState, ConnectionStatus
from pyoco_server.broker.client.message import Message
from pyoco_server.config import NatsBackendConfig

REPLIES = 4 * LOOP_BATCH


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    """All replies to what is published arrive at once."""
    made = Connection(NatsBackendConfig(load_dotenv=False), name="test")
    made.state = ConnectionState(ConnectionStatus.CONNECTED, since=0.0)

    def reply(subject: str, payload: bytes, to: str = "", headers: Mapping[str, str] | None = None) -> bool:
        for number in range(REPLIES):
            made._on_reply(Message(to, "", b"", b"%d" % number))
        return True

    monkeypatch.setattr(made.client, "try_publish", reply)
    return made


async def test_others_get_a_turn_while_many_replies_are_taken(connection: Connection) -> None:
    """A batch of a feed must not delay the submits whose replies arrive with it."""
    taken: list[bytes] = []
    seen: list[int] = []

    async def someone_else() -> None:
        while len(taken) < REPLIES:
            seen.append(len(taken))
            await asyncio.sleep(0)

    other = asyncio.create_task(someone_else())
    async for message in connection.request_many("s"):
        taken.append(message.data)
        if len(taken) == REPLIES:
            break
    await other
    assert taken == [b"%d" % number for number in range(REPLIES)]
    longest = max(after - before for before, after in zip(seen, [*seen[1:], REPLIES], strict=True))
    assert longest <= LOOP_BATCH
