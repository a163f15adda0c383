"""A load of submits over raw HTTP/1.1: a client that costs less than what it measures."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

_BODY = b'{"flow_name":"noop"}'
_REQUEST = (
    b"POST /runs HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (len(_BODY), _BODY)
)
_LENGTH = b"content-length: "


@dataclass
class Load:
    """What a load has done: run ids and the latency of each submit, in seconds."""

    run_ids: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


async def submit(port: int, *, runs: int, connections: int) -> Load:
    load = Load()
    numbers = iter(range(runs))
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_one_connection(port, numbers, load))
    load.seconds = time.perf_counter() - started
    return load


async def submit_slowly(port: int, *, runs: int, every_sec: float) -> Load:
    """One submit at a time with a pause after each: the worker is idle when a run arrives."""
    load = Load()
    for _ in range(runs):
        await _one_connection(port, iter([0]), load)
        await asyncio.sleep(every_sec)
    return load


async def _one_connection(port: int, numbers: Iterator[int], load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in numbers:
        sent_at = time.perf_counter()
        writer.write(_REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        begin = head.index(_LENGTH) + len(_LENGTH)
        body = await reader.readexactly(int(head[begin : head.index(b"\r\n", begin)]))
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"a submit was refused: {body.decode()}")
        load.latencies.append(time.perf_counter() - sent_at)
        load.run_ids.append(msgspec.json.decode(body)["run_id"])
    writer.close()
    await writer.wait_closed()
