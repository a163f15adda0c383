"""`make bench-outage`: response times while NATS is down, and how soon revoked API keys are refused.

Tests do not check seconds, since a machine may stand still. Each figure is the slowest of all requests.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import uvloop

from benchmarks.harness.gateways import started
from benchmarks.harness.processes import free_port
from benchmarks.scenarios.auth import PEPPER, administration
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats

ROUNDS: Final = 5
CONCURRENT: Final = 32
TARGET_ANSWER_SEC: Final = 2.0
TARGET_REVOKED_SEC: Final = 1.0

_DATA: Final = Path("/var/tmp")
_POLL_SEC: Final = 0.01
_LIMIT_SEC: Final = 60.0

Outage = Callable[[EmbeddedNats], AbstractAsyncContextManager[None]]


async def main(rounds: int) -> bool:
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir=_DATA) as name:
        folder = Path(name)
        hanging = await _answers(folder / "hanging", rounds, _paused)
        down = await _answers(folder / "down", rounds, _down)
        revoked = await _revocations(folder / "keys", rounds)
    return all(
        [
            _is_met("NATS hangs: slowest answer", hanging, TARGET_ANSWER_SEC),
            _is_met("NATS is down: slowest answer", down, TARGET_ANSWER_SEC),
            _is_met("API key revoked: slowest refusal", revoked, TARGET_REVOKED_SEC),
        ]
    )


def _is_met(text: str, seconds: float, target: float) -> bool:
    print(f"{text:<33} {seconds:6.3f} s (at most {target:g}: {'met' if seconds <= target else 'NOT met'})")
    return seconds <= target


async def _answers(folder: Path, rounds: int, outage: Outage) -> float:
    """Submits and reads, while NATS is down. Every answer is a 503, and after the outage a 200."""
    slowest = 0.0
    async with (
        EmbeddedNats(folder / "nats", port=free_port()) as server,
        started(server.url, folder) as gateway,
        _client(gateway.port) as http,
    ):
        run_id = (await http.post("/runs", json={"flow_name": "noop"})).json()["run_id"]
        for _ in range(rounds):
            async with outage(server):
                answers = await _concurrent_requests(gateway.port, run_id)
            assert {answer.status_code for answer in answers} == {503}
            slowest = max(slowest, *(answer.elapsed.total_seconds() for answer in answers))
            await _until(lambda: http.get(f"/runs/{run_id}"), 200)
    return slowest


async def _concurrent_requests(port: int, run_id: str) -> list[httpx.Response]:
    """All requests at once, each on a new connection.

    The search for a free one among 64 took up to 0.8 s in httpx, which is no time of the gateway's.
    """
    async with _client(port) as http:
        asked = [http.post("/runs", json={"flow_name": "noop"}) for _ in range(CONCURRENT)]
        asked += [http.get(f"/runs/{run_id}") for _ in range(CONCURRENT)]
        return await asyncio.gather(*asked)


@asynccontextmanager
async def _paused(server: EmbeddedNats) -> AsyncIterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@asynccontextmanager
async def _down(server: EmbeddedNats) -> AsyncIterator[None]:
    await server.stop()
    try:
        yield
    finally:
        await server.start()


async def _revocations(folder: Path, rounds: int) -> float:
    """From the end of the administrator's write until the gateway refuses the key."""
    slowest = 0.0
    settings = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": PEPPER}
    async with (
        EmbeddedNats(folder / "nats") as server,
        administration(server.url) as keys,
        started(server.url, folder, **settings) as gateway,
        _client(gateway.port) as http,
    ):
        for _ in range(rounds):
            record, token = await keys.create("acme", name="", scopes=[], expires_at=None)
            headers = {"X-API-Key": token.text()}
            await _until(lambda headers=headers: http.get("/runs", headers=headers), 200)  # type: ignore[misc]
            await keys.revoke(record.key_id)
            revoked_at = time.perf_counter()
            await _until(lambda headers=headers: http.get("/runs", headers=headers), 403)  # type: ignore[misc]
            slowest = max(slowest, time.perf_counter() - revoked_at)
    return slowest


def _client(port: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=_LIMIT_SEC, limits=limits)


async def _until(ask: Callable[[], Awaitable[httpx.Response]], status: int) -> None:
    async with asyncio.timeout(_LIMIT_SEC):
        while (await ask()).status_code != status:
            await asyncio.sleep(_POLL_SEC)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-outage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each kind; default: {ROUNDS}")
    sys.exit(not uvloop.run(main(parser.parse_args().rounds)))
