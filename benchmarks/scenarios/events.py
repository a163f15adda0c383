"""`make bench-events`: how many deliveries to a hook a gateway turns into runs, and how soon it answers.

Each delivery is signed as GitHub signs, has an id of its own, and starts a run. First they come at a steady
rate, then as fast as the gateway answers; then some are repeated, which start nothing. In the end there must
be exactly one run per delivery. There are no workers: the queue is as far as a gateway brings a run.
Last, the summary of a month of workflow events is read (event_month.py).
"""

import argparse
import asyncio
import hmac
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from benchmarks.comparison.measures import centiles
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.gateways import Gateway, started
from benchmarks.harness.http_load import HttpConnection, get_request, post_request
from benchmarks.harness.processes import cpu_seconds
from benchmarks.scenarios.event_month import measure_month
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.triggers.secret_keys import new_key

RATE: Final = 500.0
P99_MS: Final = 50.0
PEAK: Final = 1000.0

_HOOK: Final = "bench"
_STEADY_SEC: Final = 30.0
_PEAK_DELIVERIES: Final = 20_000
_REPEATED: Final = 1000
_CONNECTIONS: Final = 32
_ROWS: Final = 100_000
_WARM_UP: Final = 1000


class Sender:
    """Makes the requests of new deliveries, each with its signature."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self.made = 0

    def next(self) -> bytes:
        self.made += 1
        return self.request(self.made)

    def request(self, number: int) -> bytes:
        body: dict[str, Any] = {
            "action": "opened",
            "issue": {"number": number, "title": "A title of a usual length"},
            "repository": {"full_name": "acme/orders"},
            "sender": {"login": "ann", "comment": "x" * 500},
        }
        mac = hmac.digest(self._secret, msgspec.json.encode(body), "sha256").hex()
        headers = {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Delivery": f"delivery-{number}"}
        return post_request(f"/hooks/{_HOOK}", body, headers)


async def main(steady_sec: float, deliveries: int, rows: int) -> bool:
    verdicts: dict[str, bool] = {}
    if deliveries:
        with _folder() as folder:
            verdicts |= await _measure_deliveries(folder, steady_sec, deliveries)
    if rows:
        with _folder() as folder:
            verdicts |= await measure_month(folder, rows)
    for target, met in verdicts.items():
        print(f"{'met' if met else 'MISSED'}: {target}")
    return all(verdicts.values())


@contextmanager
def _folder() -> Iterator[Path]:
    # Not /tmp, which may be memory: files must cost what they cost.
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", dir="/var/tmp") as name:
        yield Path(name)


async def _measure_deliveries(folder: Path, steady_sec: float, deliveries: int) -> dict[str, bool]:
    """Whether each target is met."""
    async with (
        EmbeddedNats(folder / "nats") as server,
        started(server.url, folder, PYOCO_SECRETS_KEYS=new_key()) as gateway,
    ):
        sender = Sender(await _created_hook(gateway))
        await _as_fast_as_possible(gateway, sender, _WARM_UP)
        p99_ms = await _at_a_rate(gateway, sender, steady_sec)
        rate = await _as_fast_as_possible(gateway, sender, deliveries)
        await _repeat(gateway, sender)
        runs = await _runs(gateway)
    if runs != sender.made:
        raise NotMeasured(f"{sender.made} deliveries have started {runs} runs")
    return {
        f"p99 under {P99_MS:g} ms at {RATE:g} deliveries a second ({p99_ms:.1f} ms)": p99_ms < P99_MS,
        f"{PEAK:,.0f} deliveries a second ({rate:,.0f})": rate >= PEAK,
        f"one run per delivery ({runs:,})": True,
    }


async def _created_hook(gateway: Gateway) -> str:
    """Its secret."""
    connection = await HttpConnection.open(gateway.port)
    mapped = {"number": "/issue/number", "repository": "/repository/full_name"}
    hook = {"hook_id": _HOOK, "kind": "github", "flow_name": "noop", "map": mapped}
    made = await connection.post("/hooks", hook)
    connection.close()
    return str(made["secret"])


async def _at_a_rate(gateway: Gateway, sender: Sender, seconds: float) -> float:
    """The p99 in milliseconds, from when each delivery was due: a late answer delays no other."""
    latencies: list[float] = []
    before, began = cpu_seconds([gateway.pid]), time.perf_counter()

    async def send(first_at: float) -> None:
        connection = await HttpConnection.open(gateway.port)
        due_at = first_at
        while due_at < began + seconds:
            request = sender.next()
            await asyncio.sleep(max(0.0, due_at - time.perf_counter()))
            await connection.call(request)
            latencies.append(time.perf_counter() - due_at)
            due_at += _CONNECTIONS / RATE
        connection.close()

    await asyncio.gather(*(send(began + number / RATE) for number in range(_CONNECTIONS)))
    took = time.perf_counter() - began
    found = centiles("delivery", latencies)
    share = (cpu_seconds([gateway.pid]) - before) / took
    print(
        f"{len(latencies):,} deliveries at {len(latencies) / took:,.0f} a second: "
        f"p50 {found['delivery_p50_ms']:.1f} ms, p99 {found['delivery_p99_ms']:.1f} ms, "
        f"max {max(latencies) * 1e3:.0f} ms; {share:.0%} of a core"
    )
    return found["delivery_p99_ms"]


async def _as_fast_as_possible(gateway: Gateway, sender: Sender, deliveries: int) -> float:
    """How many a second."""
    requests = iter([sender.next() for _ in range(deliveries)])
    latencies: list[float] = []
    before, began = cpu_seconds([gateway.pid]), time.perf_counter()

    async def send(left: Iterator[bytes]) -> None:
        connection = await HttpConnection.open(gateway.port)
        for request in left:
            sent_at = time.perf_counter()
            await connection.call(request)
            latencies.append(time.perf_counter() - sent_at)
        connection.close()

    await asyncio.gather(*(send(requests) for _ in range(_CONNECTIONS)))
    took = time.perf_counter() - began
    found = centiles("delivery", latencies)
    share = (cpu_seconds([gateway.pid]) - before) / took
    print(
        f"{deliveries:,} deliveries in {took:.1f} s, {deliveries / took:,.0f} a second: "
        f"p50 {found['delivery_p50_ms']:.1f} ms, p99 {found['delivery_p99_ms']:.1f} ms; {share:.0%} of a core"
    )
    return deliveries / took


async def _repeat(gateway: Gateway, sender: Sender) -> None:
    connection = await HttpConnection.open(gateway.port)
    began = time.perf_counter()
    for number in range(1, _REPEATED + 1):
        answer = msgspec.json.decode(await connection.call(sender.request(number)))
        if not answer["duplicate"]:
            raise NotMeasured(f"delivery {number} was repeated, and has started another run")
    took = time.perf_counter() - began
    connection.close()
    print(f"{_REPEATED:,} repeated, one after the other, in {took:.1f} s: all are duplicates")


async def _runs(gateway: Gateway) -> int:
    """How many are queued: no other run is."""
    connection = await HttpConnection.open(gateway.port)
    overview = msgspec.json.decode(await connection.call(get_request("/overview")))
    connection.close()
    return int(overview["statuses"]["PENDING"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench-events", description=__doc__)
    parser.add_argument("--steady-sec", type=float, default=_STEADY_SEC, help=f"default: {_STEADY_SEC:g}")
    parser.add_argument(
        "--deliveries",
        type=int,
        default=_PEAK_DELIVERIES,
        help=f"as fast as possible; 0: measure none (default: {_PEAK_DELIVERIES})",
    )
    parser.add_argument(
        "--rows", type=int, default=_ROWS, help=f"of the month; 0: measure none (default: {_ROWS})"
    )
    arguments = parser.parse_args()
    sys.exit(not uvloop.run(main(**vars(arguments))))
