"""The texts of alerts in both languages, and what Slack and Google Chat get of them."""

import pytest

from pyoco_server.alerts.alert_sender import chat_text, webhook_body
from pyoco_server.alerts.alert_texts import (
    checked_text,
    condition_text,
    message_lines,
    message_title,
)
from pyoco_server.records.monitoring.alert_models import (
    AlertCondition,
    AlertFacts,
    AlertLanguage,
    AlertOccurrence,
    AlertRule,
    ChannelKind,
)
from tests.support.samples.alerts import NOW, an_alert

EN, JA = AlertLanguage.EN, AlertLanguage.JA
RULES = {
    AlertCondition.RUN_FAILED: AlertRule(condition=AlertCondition.RUN_FAILED, flow_name="orders"),
    AlertCondition.FAILURES: an_alert().rule,
    AlertCondition.FAILURE_RATE: AlertRule(
        condition=AlertCondition.FAILURE_RATE,
        flow_name="orders",
        percent=50.0,
        min_runs=10,
        window_sec=3600.0,
    ),
    AlertCondition.QUEUE_AGE: AlertRule(condition=AlertCondition.QUEUE_AGE, tag="gpu", after_sec=600.0),
    AlertCondition.NO_WORKER: AlertRule(condition=AlertCondition.NO_WORKER, tag="gpu", after_sec=60.0),
}
FACTS = AlertFacts(value=72, runs=20, queued=4, run_ids=["r1"], flows=["orders"])


@pytest.mark.parametrize("condition", AlertCondition)
@pytest.mark.parametrize("language", AlertLanguage)
@pytest.mark.parametrize("is_met", [True, False])
def test_each_condition_has_a_text_in_both_languages(
    condition: AlertCondition, language: AlertLanguage, is_met: bool
) -> None:
    text = condition_text(RULES[condition], FACTS, language, is_met=is_met)
    assert "{" not in text
    assert "None" not in text
    assert text.isascii() is (language is EN)


@pytest.mark.parametrize(
    ("seconds", "english", "japanese"),
    [
        (0, "0s", "0秒"),
        (7.4, "7s", "7秒"),
        (59, "59s", "59秒"),
        (240, "4m 0s", "4分0秒"),
        (3600, "1h 0m", "1時間0分"),
        (90_000, "1d 1h", "1日1時間"),
    ],
)
def test_durations_are_whole_seconds_in_the_two_largest_units(
    seconds: float, english: str, japanese: str
) -> None:
    rule, facts = RULES[AlertCondition.NO_WORKER], AlertFacts(value=seconds)
    in_english = condition_text(rule, facts, EN, is_met=True)
    assert in_english == f"Tag gpu has had no live worker for {english} (queued runs: 0)"
    in_japanese = condition_text(rule, facts, JA, is_met=True)
    assert in_japanese == f"タグ gpu で稼働中のワーカーが{japanese}ありません（キュー内の run: 0件）"


def test_a_resolved_alert_without_a_worker_does_not_say_that_there_never_was_one() -> None:
    """Its silent worker may have been hidden."""
    rule = RULES[AlertCondition.NO_WORKER]
    assert condition_text(rule, FACTS, EN, is_met=False) == (
        "Tag gpu has a live worker or had one within 1m, "
        "or no worker is expected back and nothing is queued for it"
    )
    assert condition_text(rule, FACTS, JA, is_met=False) == (
        "タグ gpu には稼働中のワーカーがあるか、1分以内にありました"
        "（または、復帰が見込まれるワーカーがなく、キューも空です）"
    )


@pytest.mark.parametrize(("language", "limit"), [(EN, "10m"), (JA, "10分")])
def test_configured_times_have_no_zero_parts(language: AlertLanguage, limit: str) -> None:
    text = condition_text(RULES[AlertCondition.QUEUE_AGE], FACTS, language, is_met=True)
    assert limit in text
    assert "0s" not in text
    assert "0秒" not in text


def test_a_message_says_what_happened_and_where_to_look() -> None:
    record = an_alert(note="Ask the shop team")
    occurrence = AlertOccurrence(
        number=1, rule=record.rule, fired_at=NOW, facts=AlertFacts(value=3, run_ids=["r1"])
    )
    title = message_title(record, occurrence, "fired")
    assert title == "Alert: 3 runs of orders failed within 1h (limit: 3)"
    assert message_lines(record, occurrence, "fired", "https://pyoco.example/") == [
        "Alert id: orders-failing",
        "Note: Ask the shop team",
        "https://pyoco.example/#/runs/r1",
        "https://pyoco.example/#/alerts/orders-failing",
    ]


def test_a_pattern_names_the_flows_that_failed() -> None:
    rule = AlertRule(condition=AlertCondition.RUN_FAILED, flow_name="*")
    facts = AlertFacts(value=2, flows=["orders", "billing"])
    assert condition_text(rule, facts, EN, is_met=True) == "2 runs of orders, billing failed"
    assert checked_text(rule, facts, EN, is_met=True).endswith("within the last 24 hours")


def test_a_text_from_outside_mentions_nobody() -> None:
    slack = chat_text(ChannelKind.SLACK, "a <!channel> & b", ["<https://evil|here>"])
    assert slack == "*a &lt;!channel&gt; &amp; b*\n&lt;https://evil|here&gt;"
    assert "<" not in chat_text(ChannelKind.GOOGLE_CHAT, "<users/all>", ["<b>"])


def test_a_webhook_has_the_rule_as_it_was_when_it_fired() -> None:
    record = an_alert(RULES[AlertCondition.QUEUE_AGE])
    occurrence = AlertOccurrence(number=7, rule=RULES[AlertCondition.NO_WORKER], fired_at=NOW, facts=FACTS)
    body = webhook_body(record, occurrence, "fired", ["text"], "id")
    assert body["alert"]["rule"]["condition"] == "no_worker"
    assert (body["event"]["id"], body["occurrence"]["number"]) == ("id", 7)
