"""Everything in the JetStream of an account, as a document: read from one server, restored on another."""

import json
from base64 import b64decode
from typing import Any

import nats
from nats.aio.client import Client

# Set by the server.
_OWN = ("metadata",)


async def read_store(nats_url: str) -> list[dict[str, Any]]:
    """The streams with their configuration, durable consumers and messages."""
    client = await nats.connect(nats_url)
    try:
        names = (await _call(client, "STREAM.NAMES"))["streams"]
        return [await _read_stream(client, name) for name in names]
    finally:
        await client.close()


async def restore_store(nats_url: str, streams: list[dict[str, Any]]) -> None:
    client = await nats.connect(nats_url)
    try:
        for stream in streams:
            name = stream["config"]["name"]
            await _call(client, f"STREAM.CREATE.{name}", stream["config"])
            for consumer in stream["consumers"]:
                body = {"stream_name": name, "config": consumer}
                await _call(client, f"CONSUMER.DURABLE.CREATE.{name}.{consumer['durable_name']}", body)
            for message in stream["messages"]:
                await client.request(
                    message["subject"], b64decode(message["data"]), headers=message["headers"] or None
                )
    finally:
        await client.close()


async def _read_stream(client: Client, name: str) -> dict[str, Any]:
    info = await _call(client, f"STREAM.INFO.{name}")
    consumers = (await _call(client, f"CONSUMER.LIST.{name}"))["consumers"] or []
    state = info["state"]
    messages = [
        await _read_message(client, name, sequence)
        for sequence in range(state["first_seq"], state["last_seq"] + 1)
    ]
    return {
        "config": _without_own(info["config"]),
        "consumers": [
            _without_own(each["config"]) for each in consumers if each["config"].get("durable_name")
        ],
        "messages": [message for message in messages if message],
    }


async def _read_message(client: Client, name: str, sequence: int) -> dict[str, Any] | None:
    reply = await client.request(f"$JS.API.STREAM.MSG.GET.{name}", json.dumps({"seq": sequence}).encode())
    found = json.loads(reply.data).get("message")
    if found is None:
        return None
    lines = b64decode(found.get("hdrs", "")).decode().split("\r\n")[1:]
    headers = dict(line.split(": ", 1) for line in lines if line)
    return {"subject": found["subject"], "headers": headers, "data": found.get("data", "")}


def _without_own(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _OWN}


async def _call(client: Client, endpoint: str, body: object = None) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    reply: dict[str, Any] = json.loads((await client.request(f"$JS.API.{endpoint}", payload)).data)
    assert "error" not in reply, f"{endpoint}: {reply['error']}"
    return reply
