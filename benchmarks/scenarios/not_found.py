"""Whether the time of a 404 reveals a run of another tenant: an existing and a missing one, in turns.

A few clients ask, each for one at a time, each pair in an order that is drawn. What is told is the median of
each kind, and in how many pairs the run that is there took longer: in half, if there is nothing to tell.
"""

import asyncio
import random
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.http_load import HttpConnection, RequestRefused, get_request, post_request

PAIRS: Final = 400
# Four standard deviations of so many pairs: less is chance.
MOST_UNEVEN: Final = 0.10

_CONNECTIONS: Final = 4
_RUNS: Final = 20
# Of the params, in bytes: a large run takes longer to read.
_SIZES: Final = {"small": 10, "large": 100_000}
_ENDPOINTS: Final = (
    ("GET", "/runs/{}"),
    ("GET", "/runs/{}/tasks"),
    ("GET", "/runs/{}/logs"),
    ("GET", "/runs/{}/watch"),
    ("GET", "/runs/{}/explain"),
    ("POST", "/runs/{}/cancel"),
    ("POST", "/runs/{}/rerun"),
    ("POST", "/runs/{}/retry"),
)

Headers = dict[str, str]


async def measure_not_found(port: int, owner: Headers, stranger: Headers) -> bool:
    """Whether no difference can be seen."""
    connections = [await HttpConnection.open(port) for _ in range(_CONNECTIONS)]
    even = True
    for size, length in _SIZES.items():
        body = {"flow_name": "noop", "params": {"text": "x" * length}}
        theirs = [await _submit(connections[0], body, owner) for _ in range(_RUNS)]
        for method, path in _ENDPOINTS:
            asking = (_ask(each, method, path, theirs, stranger) for each in connections)
            pairs = [pair for some in await asyncio.gather(*asking) for pair in some]
            even &= _report(f"{method:<4} {path.format('{id}'):<18} {size:<5}", pairs)
    for connection in connections:
        connection.close()
    return even


async def _submit(connection: HttpConnection, body: Any, headers: Headers) -> str:
    answer = msgspec.json.decode(await connection.call(post_request("/runs", body, headers)))
    return str(answer["run_id"])


async def _ask(
    connection: HttpConnection, method: str, path: str, theirs: Sequence[str], headers: Headers
) -> list[tuple[float, float]]:
    """Seconds for a run of another tenant and for one that nobody has, pair by pair."""
    pairs = []
    for _ in range(PAIRS // _CONNECTIONS):
        taken: dict[bool, float] = {}
        for exists in random.sample((True, False), 2):
            asked = path.format(random.choice(theirs) if exists else uuid.uuid4())
            request = get_request(asked, headers) if method == "GET" else post_request(asked, {}, headers)
            taken[exists] = await _refused(connection, request)
        pairs.append((taken[True], taken[False]))
    return pairs


def _report(what: str, pairs: Sequence[tuple[float, float]]) -> bool:
    slower = statistics.mean(there > none for there, none in pairs)
    there, none = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    print(
        f"404 {what} another's {there:6.0f} µs, nobody's {none:6.0f} µs, "
        f"another's was slower in {slower:.0%} of {len(pairs)} pairs"
    )
    return abs(slower - 0.5) <= MOST_UNEVEN


async def _refused(connection: HttpConnection, request: bytes) -> float:
    began = time.perf_counter()
    try:
        await connection.call(request)
    except RequestRefused as refusal:
        if "404" in str(refusal):
            return time.perf_counter() - began
        raise
    raise NotMeasured(f"this was not refused: {request!r}")
