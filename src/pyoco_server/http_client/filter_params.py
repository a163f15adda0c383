"""Filters as keyword arguments; one that is not given matches everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class LogFilter(TypedDict, total=False):
    """Lines of a log."""

    task: Sequence[str]
    stream: Sequence[str]
    search: str | None


class LetterFilter(TypedDict, total=False):
    """Dead letters. Times are unix seconds; `q` is a text in the error, the reason, the flow's name, ..."""

    reason: Sequence[str]
    tag: str | None
    flow: str | None
    run_id: str | None
    worker: str | None
    since: float | None
    until: float | None
    q: str | None
    seq: Sequence[int]
    # `open`, or `closed`: a rerun of their run has completed.
    state: str | None


class AuditFilter(TypedDict, total=False):
    """Entries of the audit log. Times are unix seconds; `actor` is the id or name of an API key, an address
    or `anonymous`, `action` such as `run.cancel` or `run`, `outcome` `accepted`, `refused` or `failed`.
    """

    actor: str | None
    action: str | None
    target: str | None
    run_id: str | None
    outcome: str | None
    since: float | None
    until: float | None


class BulkConsent(TypedDict, total=False):
    """One of the three: count only, apply to at most so many, or apply what a dry run has counted."""

    dry_run: bool
    expected_count: int
    token: str


class WaitFilter(TypedDict, total=False):
    """Waits. `state` is `open` (the default), `answered`, `expired` or `cancelled`; `kind` is `human` (the
    default: questions to people), `sleep`, `signal` or `event`.
    """

    state: Sequence[str]
    kind: Sequence[str]
    run_id: str | None
    flow: str | None
    tag: str | None
    task: str | None
    assignee: str | None


class ScheduleFilter(TypedDict, total=False):
    """Schedules. `q` is a text in the id, the flow's name, tags or the note."""

    flow: str | None
    tag: str | None
    paused: bool | None
    q: str | None


class HookFilter(TypedDict, total=False):
    """Hooks. `q` is a text in the id, the flow's name, tags or the note."""

    kind: str | None
    flow: str | None
    q: str | None


class RunFilter(TypedDict, total=False):
    """Runs. Times are unix seconds; `q` is a text in the flow's name, the error, tags and params."""

    status: Sequence[str]
    flow: str | None
    tag: str | None
    worker: str | None
    origin: str | None
    # `schedule`, or `schedule:nightly`; `event:hook:orders`, `event:template:monthly-close`.
    cause: str | None
    updated_after: float | None
    updated_before: float | None
    submitted_after: float | None
    submitted_before: float | None
    workflow_yaml_sha256: str | None
    q: str | None


class RunListing(RunFilter, total=False):
    """Runs, in which order, and how much of each."""

    sort: str | None
    order: str | None
    include: Sequence[str]
