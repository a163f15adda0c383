"""The arguments of `ctx.sleep`, `ctx.wait_for_signal` and `ctx.wait_for_event`, validated."""

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.records.moments import TEN_YEARS_SEC, parse_moment
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import TOPIC_EXPECTED, OnTimeout, Question, WaitRecord, is_topic
from pyoco_server.waits.human.asking import check_size, json_value

# Below this, a task sleeps in its process: parking the run would take longer than it saves.
IN_PLACE_SEC: Final = 5.0
MAX_MATCHES: Final = 20
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")


class TaskSuspended(BaseException):
    """Suspends the task until its wait is over.

    Not an Exception: `except Exception` in a task, a retry or a fail policy must not catch it.
    """


class WaitTimeout(TimeoutError):
    """The signal or event did not come in time, and the task has given no default."""

    def __init__(self, kind: str, topic: str, deadline_at: float) -> None:
        super().__init__(kind, topic, deadline_at)
        # "signal" or "event".
        self.kind = kind
        self.topic = topic
        # In unix seconds.
        self.deadline_at = deadline_at

    def __str__(self) -> str:
        return f"the {self.kind} {self.topic!r} did not come in time"


def seconds_to_sleep(seconds: Any, until: Any, *, now: float) -> float:
    """How long to sleep from now on, 0 for a time in the past; ValueError or TypeError names the argument."""
    if (seconds is None) == (until is None):
        raise ValueError("ctx.sleep(): expected either seconds or until=..., and not both")
    if seconds is not None:
        return _seconds("ctx.sleep(seconds", seconds, least=0.0)
    left_sec = _moment(until) - now
    if left_sec > TEN_YEARS_SEC:
        raise _wrong("ctx.sleep(until", until, "a time within the next ten years")
    return max(0.0, left_sec)


def sleep_question(*, node: str, task: str, name: str, until: float) -> Question:
    """A sleep is a wait whose default, nothing, is used at its deadline."""
    return Question(
        node=node, task=task, name=name, message="sleep", kind=WaitKind.SLEEP, until=until, default=None
    )


def topic_question(
    kind: WaitKind,
    topic: str,
    *,
    node: str,
    task: str,
    name: str,
    timeout_sec: float | None,
    default: Any,
    match: Mapping[str, Any] | None = None,
) -> Question:
    call = f"ctx.wait_for_{kind}("
    if not isinstance(topic, str) or not is_topic(topic):
        raise _wrong(f"{call}name", topic, TOPIC_EXPECTED)
    asked = Question(
        node=node,
        task=task,
        name=name,
        message=f"{kind} {topic}",
        kind=kind,
        topic=topic,
        match=_checked_match(call, match),
        timeout_sec=None if timeout_sec is None else _seconds(f"{call}timeout_sec", timeout_sec),
        default=UNSET if default is ... else json_value(default, call=call, argument="default"),
        on_timeout=OnTimeout.RAISE,
    )
    check_size(asked, call=f"{call})")
    return asked


def received(wait: WaitRecord) -> Any:
    """What the task receives when its wait is over: nothing after a sleep, else the data or the default."""
    if wait.timed_out:
        raise WaitTimeout(str(wait.kind), wait.topic or "", wait.deadline_at)
    return None if wait.value is UNSET else wait.value


def _seconds(argument: str, value: Any, *, least: float | None = None) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    is_enough = is_number and (seconds > 0 if least is None else seconds >= least)
    if not is_enough or not math.isfinite(seconds) or seconds > TEN_YEARS_SEC:
        lowest = "more than 0" if least is None else f"at least {least:g}"
        raise _wrong(argument, value, f"seconds, {lowest} and at most {TEN_YEARS_SEC} (ten years)")
    return float(seconds)


def _moment(until: Any) -> float:
    try:
        return parse_moment(until)
    except ValueError:
        raise _wrong("ctx.sleep(until", until, _EXPECTED_TIME) from None


_EXPECTED_TIME: Final = (
    "unix seconds, a datetime with a time zone, or ISO 8601 with an offset such as 2027-01-31T09:00:00Z"
)


def _checked_match(call: str, match: Mapping[str, Any] | None) -> dict[str, Any]:
    if match is None:
        return {}
    if not isinstance(match, Mapping) or len(match) > MAX_MATCHES:
        raise _wrong(f"{call}match", match, f"a dict of at most {MAX_MATCHES} JSON pointers and values")
    for pointer in match:
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise _wrong(f"{call}match", pointer, "JSON pointers such as '/order/id' as keys")
    checked: dict[str, Any] = json_value(dict(match), call=call, argument="match")
    return checked


def _wrong(argument: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{argument}={repr(value)[:80]}): expected {expected}")
