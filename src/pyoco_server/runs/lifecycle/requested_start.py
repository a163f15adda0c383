"""The start that a request asks for: at a time, after a delay, or at once."""

import math
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET, UnsetType

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.records.moments import TEN_YEARS_SEC, NoTimeZone, parse_moment

START_AT_EXPECTED: Final = (
    "expected a time in ISO 8601 with its offset, such as 2027-01-31T09:00:00+09:00 or "
    "2027-01-31T00:00:00Z, or in unix seconds"
)
DELAY_EXPECTED: Final = f"expected a number of seconds from 0 to {TEN_YEARS_SEC} (ten years)"


@dataclass(frozen=True, slots=True)
class RequestedStart:
    # Unset: at once.
    at: float | UnsetType = UNSET
    # Compared with an earlier request that had the same idempotency key. A delay is the same in a retry.
    compared_fields: tuple[Any, ...] = ()


AT_ONCE: Final = RequestedStart()


def requested_start(
    start_at: float | str | UnsetType | None, delay_sec: float | UnsetType | None, now: float
) -> RequestedStart:
    """A time in the past is at once; InvalidRequest says what is wrong with another."""
    if start_at in (None, UNSET) and delay_sec in (None, UNSET):
        return AT_ONCE
    if start_at not in (None, UNSET) and delay_sec not in (None, UNSET):
        message = f"given together with start_at ({shortened(str(start_at))}); give one of them"
        raise InvalidRequest(problems=[FieldProblem("delay_sec", message, value=str(delay_sec))])
    if isinstance(delay_sec, int | float):
        # The millisecond, as the clock of the server is known; not rounded up, or no delay would be one.
        at = math.floor((now + delay_sec) * 1000) / 1000
        return RequestedStart(at=at, compared_fields=("delay_sec", float(delay_sec)))
    assert isinstance(start_at, int | float | str)
    at = _moment(start_at)
    if at > now + TEN_YEARS_SEC:
        raise _invalid(start_at, "more than ten years ahead; give an earlier time")
    return RequestedStart(at=at, compared_fields=("start_at", at))


def _moment(given: float | str) -> float:
    try:
        return parse_moment(given)
    except NoTimeZone:
        raise _invalid(given, "no time zone; add Z for UTC, or an offset such as +09:00") from None
    except ValueError:
        raise _invalid(given, START_AT_EXPECTED) from None


def _invalid(given: object, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem("start_at", message, value=shortened(str(given)))])
