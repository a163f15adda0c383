"""Reminders and escalations: when they are due, and what a question may ask for."""

from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import WaitEventKind, WaitRecord, WaitState
from pyoco_server.waits.human.asking import question
from pyoco_server.waits.human.notify_targets import NotifyTargets
from pyoco_server.waits.wait_transitions import due_notice, reopened
from tests.support.broker.stored_waits import a_wait


def wait(**fields: Any) -> WaitRecord:
    return a_wait(new_run_id(), created_at=100.0, deadline_at=200.0, **fields)


def test_each_notice_is_due_once() -> None:
    asked = wait(remind_at=110.0, escalate_at=150.0)
    assert due_notice(asked, at=109.9) is None
    reminded = due_notice(asked, at=111.0)
    assert reminded is not None
    assert (reminded[1].kind, reminded[1].at, reminded[0].reminded_at) == ("reminded", 111.0, 111.0)
    assert due_notice(reminded[0], at=149.0) is None
    escalated = due_notice(reminded[0], at=150.0)
    assert escalated is not None
    assert escalated[1].kind is WaitEventKind.ESCALATED
    assert due_notice(escalated[0], at=199.0) is None


@pytest.mark.parametrize(
    "fields", [{}, {"remind_at": 110.0, "state": WaitState.ANSWERED}, {"remind_at": 200.0}]
)
def test_no_notice_without_a_time_after_the_decision_or_at_the_deadline(fields: dict[str, Any]) -> None:
    assert due_notice(wait(**fields), at=200.0) is None


def test_a_reopened_wait_reminds_again_after_the_same_time() -> None:
    again = reopened(wait(remind_at=110.0, reminded_at=111.0), at=1000.0, deadline_at=1100.0)
    assert (again.remind_at, again.reminded_at, again.escalate_at) == (1010.0, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"notify": "https://evil.example/hook"},
        {"notify": ""},
        {"escalate_to": "a b"},
        {"remind_after_ms": 0},
        {"escalate_after_ms": True},
    ],
)
def test_a_receiver_is_a_name_and_a_time_is_positive(wrong: dict[str, Any]) -> None:
    [field] = wrong
    with pytest.raises(ValueError, match=rf"ctx.human\({field}="):
        question("?", node="n", task="t", **wrong)


def test_times_and_receivers_of_a_question() -> None:
    given = {"notify": "finance", "remind_after_ms": 1500, "escalate_after_ms": 9000, "escalate_to": "x.y"}
    asked = question("?", node="n", task="t", **given)  # type: ignore[arg-type]
    assert (asked.notify, asked.escalate_to) == ("finance", "x.y")
    assert (asked.remind_sec, asked.escalate_sec) == (1.5, 9.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"notify_targets": "finance"},
        {"notify_targets": "finance=ftp://x"},
        {"notify_flow_targets": "invoice=finance"},
        {"notify_targets": "a=https://a.example", "notify_target_secrets": "b=c"},
    ],
)
def test_receivers_that_do_not_exist_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="PYOCO_NOTIFY"):
        replace(NatsBackendConfig(load_dotenv=False), **settings)


def test_receivers_and_their_urls_are_not_shown() -> None:
    urls = "a=https://a.example/token,b=https://b.example/?x=1"
    config = NatsBackendConfig(load_dotenv=False, notify_targets=urls)
    assert "/token" not in repr(config)
    assert "a.example" not in repr(config)
    targets = NotifyTargets(config)
    found, unknown = targets.target_of(wait(notify="b"), WaitEventKind.OPENED)
    assert found is not None
    assert (found.url, unknown) == ("https://b.example/?x=1", None)
    assert "example" not in repr(found)
    assert targets.target_of(wait(), WaitEventKind.OPENED) == (None, None)
