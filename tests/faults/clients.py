"""The clients: they submit, ask again when they got no answer, and cancel; and note what was promised."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.faults.history import History
from tests.faults.work import Work
from tests.support.waiting import LIMIT_SEC

_CLIENTS = 8
_RETRY_SEC = 0.05
# Also for a gateway on a machine that stands still.
_ANSWER_SEC = LIMIT_SEC
# So long may all gateways together be unable to answer.
_PATIENCE_SEC = LIMIT_SEC
# Rather than an answer: the same request is made again, perhaps to another gateway.
_NO_ANSWER = {503}


@dataclass
class Ledger:
    """What the product has promised, and what it answered against its contract."""

    # Every run whose submission was answered with 200.
    accepted: dict[str, Work] = field(default_factory=dict)
    by_key: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cancelled: set[str] = field(default_factory=set)
    odd_answers: list[str] = field(default_factory=list)
    # Answers that did not come, and requests made again for that.
    retries: int = 0


class Clients:
    """A number of clients that submit what is drawn, until they are told that it is enough."""

    def __init__(self, urls: list[str], history: History, works: Iterator[Work], *, most_open: int) -> None:
        self._urls = urls
        self._history = history
        self._works = works
        self._most_open = most_open
        self._enough = False
        self.ledger = Ledger()

    def stop(self) -> None:
        """Finish what has begun, and submit no more."""
        self._enough = True

    async def accepted(self, count: int, *, within: float) -> bool:
        """Wait until so many runs were accepted; false when the product does not come so far in that time."""
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
        """One client with connections of its own, which it keeps until its last cancel is answered."""
        async with (
            httpx.AsyncClient(timeout=_ANSWER_SEC, verify=False) as http,
            asyncio.TaskGroup() as cancels,
        ):
            while not self._enough:
                if len(self._history.open) >= self._most_open:
                    await asyncio.sleep(_RETRY_SEC)
                    continue
                work = next(self._works)
                # Drawn for each submission by itself: the order of answers must not change what comes next.
                rng = Random(f"{work.number}/{work.key}")
                run_id = await self._submit(http, work, rng)
                if run_id is not None and work.cancel_after_sec is not None:
                    cancels.create_task(self._cancel(http, run_id, work.cancel_after_sec, rng))

    async def _submit(self, http: httpx.AsyncClient, work: Work, rng: Random) -> str | None:
        run_id: str | None = None
        headers = {} if work.key is None else {"Idempotency-Key": work.key}
        for _ in range(2 if work.repeat else 1):
            answer = await self._ask(http, rng, "/runs", json=work.body, headers=headers)
            if answer is None:
                continue
            given: str = answer["run_id"]
            run_id = run_id or given
            self.ledger.accepted[given] = work
            if work.key is not None:
                self.ledger.by_key[work.key].add(given)
        return run_id

    async def _cancel(self, http: httpx.AsyncClient, run_id: str, after_sec: float, rng: Random) -> None:
        await asyncio.sleep(after_sec)
        if await self._ask(http, rng, f"/runs/{run_id}/cancel") is not None:
            self.ledger.cancelled.add(run_id)

    async def _ask(self, http: httpx.AsyncClient, rng: Random, path: str, **request: Any) -> Any:
        """The answer to a request that is made until there is one; None instead of one that should not be."""
        give_up_at = time.monotonic() + _PATIENCE_SEC
        while time.monotonic() < give_up_at:
            try:
                answer = await http.post(rng.choice(self._urls) + path, **request)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return answer.json()
            if answer is not None and answer.status_code not in _NO_ANSWER:
                self.ledger.odd_answers.append(f"POST {path}: {answer.status_code} {answer.text}")
                return None
            self.ledger.retries += 1
            await asyncio.sleep(_RETRY_SEC)
        self.ledger.odd_answers.append(f"POST {path}: no answer in {_PATIENCE_SEC:g} s")
        return None
