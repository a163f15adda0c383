"""Does something for each of many waits or runs, a few at a time."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from pyoco_server.aio.groups import in_groups
from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.wait_models import run_id_of_wait

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONCURRENT: Final = 32


async def for_each(
    act: Callable[[str], Awaitable[T]],
    ids: Iterable[str],
    *,
    concurrent: int = _CONCURRENT,
    pause_share: float = 0.0,
) -> dict[str, T]:
    """What it returned for each. Log what fails and go on; NatsUnavailable ends it."""
    results: dict[str, T] = {}
    async for group in in_groups(act, ids, size=concurrent, pause_share=pause_share):
        for each, outcome in group:
            if isinstance(outcome, PayloadTooLarge):
                log.error("a wait cannot be written: %s", outcome, extra=_log_fields(each))
            elif isinstance(outcome, NatsUnavailable):
                raise outcome
            elif isinstance(outcome, BaseException):
                log.error("processing a wait failed", exc_info=outcome, extra=_log_fields(each))
            else:
                results[each] = outcome
    return results


def _log_fields(wait_or_run_id: str) -> dict[str, str]:
    run_id = run_id_of_wait(wait_or_run_id)
    return {"run_id": run_id} if wait_or_run_id == run_id else {"run_id": run_id, "wait_id": wait_or_run_id}
