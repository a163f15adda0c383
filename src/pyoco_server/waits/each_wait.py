"""Processes many waits or runs with bounded concurrency: aio/parallel.py, with errors of waits.

What fails for one is logged, and the others are done; an outage of NATS ends it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from pyoco_server.aio.parallel import for_each_item
from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.waits.wait_models import run_id_of_wait

log = logging.getLogger(__name__)

T = TypeVar("T")

# Few: each of them may be several requests, and those of users come between them.
_AT_ONCE: Final = 8


async def for_each_wait(
    act: Callable[[str], Awaitable[T]], ids: Iterable[str], *, urgent: UrgentWork
) -> dict[str, T]:
    """What it returned for each. Log what fails and go on; NatsUnavailable ends it."""
    results: dict[str, T] = {}
    outages: list[NatsUnavailable] = []

    async def act_or_log(each: str) -> bool:
        try:
            results[each] = await act(each)
        except PayloadTooLarge as error:
            log.error("a wait cannot be written: %s", error, extra=_log_fields(each))
        except NatsUnavailable as error:
            outages.append(error)
        except Exception:
            log.exception("processing a wait failed", extra=_log_fields(each))
        return not outages

    # Sorted, so that a set is processed in the same order each time (docs/simulation.md).
    await for_each_item(act_or_log, sorted(ids), at_once=_AT_ONCE, urgent=urgent)
    if outages:
        raise outages[0]
    return results


def _log_fields(wait_or_run_id: str) -> dict[str, str]:
    run_id = run_id_of_wait(wait_or_run_id)
    return {"run_id": run_id} if wait_or_run_id == run_id else {"run_id": run_id, "wait_id": wait_or_run_id}
