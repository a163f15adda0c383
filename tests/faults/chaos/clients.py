"""Clients that submit, retry, and cancel, and record what the product promised."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from pyoco_server.aio.async_http import AsyncHttpClient
from tests.faults.chaos.history import History
from tests.faults.chaos.workload import PlannedRun
from tests.support.waiting import LIMIT_SEC

_CLIENTS = 8
_RETRY_SEC = 0.05
_RESPONSE_TIMEOUT_SEC = LIMIT_SEC
# How long all gateways together may be unavailable.
_TIME_LIMIT_SEC = LIMIT_SEC
# The same request is sent again, perhaps to another gateway.
_RETRIED_STATUSES = {503}


@dataclass
class Ledger:
    """What the product has promised, and the responses that violate its contract."""

    # Every run whose submission was answered with 200.
    accepted: dict[str, PlannedRun] = field(default_factory=dict)
    by_key: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cancelled: set[str] = field(default_factory=set)
    unexpected_responses: list[str] = field(default_factory=list)
    retries: int = 0


class Clients:
    """Clients that submit the planned runs until `stop`."""

    def __init__(
        self, urls: list[str], history: History, planned: Iterator[PlannedRun], *, most_open: int
    ) -> None:
        self._urls = urls
        self._history = history
        self._planned = planned
        self._most_open = most_open
        self._stopping = False
        self.ledger = Ledger()

    def stop(self) -> None:
        """Submit no more; requests under way are completed."""
        self._stopping = True

    async def accepted(self, count: int, *, within: float) -> bool:
        """Wait until `count` runs were accepted; false after `within` seconds."""
        give_up_at = time.monotonic() + within
        while len(self.ledger.accepted) < count:
            if time.monotonic() > give_up_at:
                return False
            await asyncio.sleep(_RETRY_SEC)
        return True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._submit_and_cancel())

    async def _submit_and_cancel(self) -> None:
        """One client with its own connections, open until its last cancel has a response."""
        async with (
            AsyncHttpClient(timeout=_RESPONSE_TIMEOUT_SEC, verify=False) as http,
            asyncio.TaskGroup() as cancels,
        ):
            while not self._stopping:
                if len(self._history.open) >= self._most_open:
                    await asyncio.sleep(_RETRY_SEC)
                    continue
                planned = next(self._planned)
                # Drawn per submission: the order of responses must not change what comes next.
                rng = Random(f"{planned.number}/{planned.key}")
                run_id = await self._submit(http, planned, rng)
                if run_id is not None and planned.cancel_after_sec is not None:
                    cancels.create_task(self._cancel(http, run_id, planned.cancel_after_sec, rng))

    async def _submit(self, http: httpx.AsyncClient, planned: PlannedRun, rng: Random) -> str | None:
        run_id: str | None = None
        headers = {} if planned.key is None else {"Idempotency-Key": planned.key}
        for _ in range(2 if planned.repeat else 1):
            response = await self._post(http, rng, "/runs", json=planned.body, headers=headers)
            if response is None:
                continue
            given: str = response["run_id"]
            run_id = run_id or given
            self.ledger.accepted[given] = planned
            if planned.key is not None:
                self.ledger.by_key[planned.key].add(given)
        return run_id

    async def _cancel(self, http: httpx.AsyncClient, run_id: str, after_sec: float, rng: Random) -> None:
        await asyncio.sleep(after_sec)
        if await self._post(http, rng, f"/runs/{run_id}/cancel") is not None:
            self.ledger.cancelled.add(run_id)

    async def _post(self, http: httpx.AsyncClient, rng: Random, path: str, **request: Any) -> Any:
        """The body of the first 200, with retries; None after an unexpected response, which is recorded."""
        give_up_at = time.monotonic() + _TIME_LIMIT_SEC
        while time.monotonic() < give_up_at:
            try:
                response = await http.post(rng.choice(self._urls) + path, **request)
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code == 200:
                return response.json()
            if response is not None and response.status_code not in _RETRIED_STATUSES:
                self.ledger.unexpected_responses.append(f"{path}: {response.status_code} {response.text}")
                return None
            self.ledger.retries += 1
            await asyncio.sleep(_RETRY_SEC)
        self.ledger.unexpected_responses.append(f"POST {path}: no response in {_TIME_LIMIT_SEC:g} s")
        return None
