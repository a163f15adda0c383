"""Rules about combinations of settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final

from pyoco_server.config.setting import Setting, named_values, split_urls
from pyoco_server.errors import FieldProblem

_STREAMS: Final = (
    "work_stream",
    "dlq_stream",
    "journal_stream",
    "run_object_stream",
    "run_log_stream",
    "advisory_stream",
    "wait_event_stream",
    "event_stream",
    "audit_stream",
    "audit_log_stream",
    "event_intake_stream",
    "hook_delivery_stream",
)
_BUCKETS: Final = (
    "runs_kv_bucket",
    "workers_kv_bucket",
    "flows_kv_bucket",
    "auth_kv_bucket",
    "wheel_history_kv_bucket",
    "idempotency_kv_bucket",
    "lease_kv_bucket",
    "artifact_usage_kv_bucket",
    "bulk_kv_bucket",
    "waits_kv_bucket",
    "schedules_kv_bucket",
    "signals_kv_bucket",
    "triggers_kv_bucket",
    "receipts_kv_bucket",
    "event_retries_kv_bucket",
    "requests_kv_bucket",
    "views_kv_bucket",
    "alerts_kv_bucket",
)
_SUBJECT_PREFIXES: Final = (
    "work_subject_prefix",
    "dlq_subject_prefix",
    "journal_subject_prefix",
    "run_object_subject_prefix",
    "run_log_subject_prefix",
    "wait_event_subject_prefix",
    "event_subject_prefix",
    "audit_subject_prefix",
    "audit_log_subject_prefix",
    "event_intake_subject_prefix",
    "hook_delivery_subject_prefix",
)
_NATS_USERS: Final = ("nats_user", "nats_nkey_seed_file", "nats_creds_file")


def conflicts(rows: Iterable[tuple[Setting, Any]]) -> Iterator[FieldProblem]:
    """The conflicts between settings whose values are each valid."""
    values = _Values(rows)
    yield from values.wrong_order("ack_progress_interval_sec", "consumer_ack_wait_sec")
    yield from values.wrong_order("worker_heartbeat_interval_sec", "worker_disconnect_timeout_sec")
    yield from values.incomplete_pair("nats_user", "nats_password")
    yield from values.incomplete_pair("smtp_user", "smtp_password")
    yield from values.incomplete_pair("nats_tls_cert_file", "nats_tls_key_file")
    yield from values.incomplete_pair("http_tls_cert_file", "http_tls_key_file")
    yield from values.several_users()
    yield from values.repository_without_tenant()
    yield from values.unknown_targets()
    yield from values.same_name(*_STREAMS)
    yield from values.same_name(*_BUCKETS)
    yield from values.overlapping(*_SUBJECT_PREFIXES)


class _Values:
    """The value of each field, and the rules that compare several."""

    def __init__(self, rows: Iterable[tuple[Setting, Any]]) -> None:
        self._rows: dict[str, Setting] = {}
        self._values: dict[str, Any] = {}
        for row, value in rows:
            self._rows[row.field] = row
            self._values[row.field] = value

    def incomplete_pair(self, one: str, other: str) -> Iterator[FieldProblem]:
        for given, missing in ((one, other), (other, one)):
            if self._values[given] and not self._values[missing]:
                yield self._conflict(missing, "a value together with", given)

    def several_users(self) -> Iterator[FieldProblem]:
        """Only one way to name the NATS user may be used."""
        given_users = [name for name in _NATS_USERS if self._values[name]]
        if given_users and any("@" in url for url in split_urls(self._values["nats_url"])):
            given_users.append("nats_url")
        for name in given_users[1:]:
            yield self._conflict(name, "no user together with", given_users[0])

    def repository_without_tenant(self) -> Iterator[FieldProblem]:
        """With API keys, a repository belongs to the keys of one tenant."""
        is_missing = self._values["agent_repo"] and not self._values["agent_tenant"]
        if is_missing and self._values["http_auth_mode"] == "api_key":
            yield self._conflict(
                "agent_tenant", "the tenant of the repository together with", "http_auth_mode"
            )

    def unknown_targets(self) -> Iterator[FieldProblem]:
        """A flow must name a receiver that exists."""
        known = named_values(self._values["notify_targets"])
        for field, names in (
            ("notify_flow_targets", named_values(self._values["notify_flow_targets"]).values()),
            ("notify_target_secrets", named_values(self._values["notify_target_secrets"])),
        ):
            if self._values[field] and any(name not in known for name in names):
                yield self._conflict(field, "only names of", "notify_targets")

    def overlapping(self, *names: str) -> Iterator[FieldProblem]:
        for first, second in combinations(names, 2):
            one, other = f"{self._values[first]}.", f"{self._values[second]}."
            if one.startswith(other) or other.startswith(one):
                yield self._conflict(second, "a prefix that does not overlap with", first)

    def wrong_order(self, smaller: str, larger: str) -> Iterator[FieldProblem]:
        if self._values[smaller] >= self._values[larger]:
            yield self._conflict(smaller, "less than", larger)

    def same_name(self, *names: str) -> Iterator[FieldProblem]:
        first_user: dict[str, str] = {}
        for name in names:
            other = first_user.setdefault(self._values[name], name)
            if other != name:
                yield self._conflict(name, "a name other than", other)

    def _conflict(self, name: str, relation: str, other: str) -> FieldProblem:
        row, against = self._rows[name], self._rows[other]
        message = f"expected {relation} {against.name}={against.shown(self._values[other])}"
        return FieldProblem(row.name, message, row.shown(self._values[name]))
