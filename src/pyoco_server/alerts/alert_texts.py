"""The texts of alerts, in English and Japanese. They have no error and no parameter of a run."""

from collections.abc import Sequence
from typing import Final

from pyoco_server.alerts.alert_transitions import Phase
from pyoco_server.errors.error_table import Lang
from pyoco_server.records.moments import duration_text, interval_text
from pyoco_server.records.monitoring.alert_models import (
    AlertCondition,
    AlertFacts,
    AlertLanguage,
    AlertOccurrence,
    AlertRecord,
    AlertRule,
)

_FIRED: Final = {
    AlertLanguage.EN: {
        AlertCondition.RUN_FAILED: "{runs} of {flow} failed",
        AlertCondition.FAILURES: "{runs} of {flow} failed within {window} (limit: {count})",
        AlertCondition.FAILURE_RATE: "{value}% of the runs of {flow} failed within {window} "
        "(limit: {percent}%, ended runs: {ended})",
        AlertCondition.QUEUE_AGE: "The oldest queued run of tag {tag} has waited for {age} "
        "(limit: {after}, queued runs: {queued})",
        AlertCondition.NO_WORKER: "Tag {tag} has had no live worker for {age} (queued runs: {queued})",
    },
    AlertLanguage.JA: {
        AlertCondition.RUN_FAILED: "{flow} の run が{runs}失敗しました",
        AlertCondition.FAILURES: "{flow} の run が{window}以内に{runs}失敗しました（しきい値: {count}件）",
        AlertCondition.FAILURE_RATE: "{flow} の run の{value}%が{window}以内に失敗しました"
        "（しきい値: {percent}%、終了した run: {ended}件）",
        AlertCondition.QUEUE_AGE: "タグ {tag} の最も古い run がキューで{age}待っています"
        "（しきい値: {after}、キュー内の run: {queued}件）",
        AlertCondition.NO_WORKER: "タグ {tag} で稼働中のワーカーが{age}ありません"
        "（キュー内の run: {queued}件）",
    },
}
_NOT_MET: Final = {
    AlertLanguage.EN: {
        AlertCondition.RUN_FAILED: "No run of {flow} has failed",
        AlertCondition.FAILURES: "Fewer than {count} runs of {flow} failed within {window}",
        AlertCondition.FAILURE_RATE: "Less than {percent}% of the runs of {flow} failed within {window}",
        AlertCondition.QUEUE_AGE: "No run of tag {tag} has been queued for {after}",
        AlertCondition.NO_WORKER: "Tag {tag} has a live worker or had one within {after}, "
        "or no worker is expected back and nothing is queued for it",
    },
    AlertLanguage.JA: {
        AlertCondition.RUN_FAILED: "{flow} の失敗した run はありません",
        AlertCondition.FAILURES: "{window}以内に失敗した {flow} の run は{count}件未満です",
        AlertCondition.FAILURE_RATE: "{window}以内に失敗した {flow} の run は{percent}%未満です",
        AlertCondition.QUEUE_AGE: "タグ {tag} のキューに{after}以上待っている run はありません",
        AlertCondition.NO_WORKER: "タグ {tag} には稼働中のワーカーがあるか、{after}以内にありました"
        "（または、復帰が見込まれるワーカーがなく、キューも空です）",
    },
}
# Of a check, which has no occurrence before it.
_LAST_DAY: Final = {
    AlertLanguage.EN: "{runs} of {flow} failed within the last 24 hours",
    AlertLanguage.JA: "過去24時間に {flow} の run が{runs}失敗しました",
}
_HEADS: Final = {
    AlertLanguage.EN: {"fired": "Alert", "resolved": "Resolved", "test": "Test"},
    AlertLanguage.JA: {"fired": "アラート", "resolved": "解消", "test": "テスト"},
}
_TEST: Final = {
    AlertLanguage.EN: "This is a test message of the alert {alert_id}; nothing has happened",
    AlertLanguage.JA: "アラート {alert_id} のテストメッセージです（実際には発生していません）",
}


def condition_text(rule: AlertRule, facts: AlertFacts, language: AlertLanguage, *, is_met: bool) -> str:
    """What was found, in one sentence without its full stop."""
    texts = _FIRED if is_met else _NOT_MET
    return _filled(texts[language][rule.condition], rule, facts, language)


def checked_text(rule: AlertRule, facts: AlertFacts, language: AlertLanguage, *, is_met: bool) -> str:
    """The same of a check."""
    if rule.condition.is_event and is_met:
        return _filled(_LAST_DAY[language], rule, facts, language)
    return condition_text(rule, facts, language, is_met=is_met)


def _filled(text: str, rule: AlertRule, facts: AlertFacts, language: AlertLanguage) -> str:
    return text.format(
        flow=_flows(rule, facts, language),
        runs=_runs(facts, language),
        tag=rule.tag,
        count=rule.count,
        value=f"{facts.value:.3g}",
        percent=f"{rule.percent or 0:g}",
        ended=facts.runs,
        queued=facts.queued,
        window=interval_text(round(rule.window_sec or 0), _lang(language)),
        after=interval_text(round(rule.after_sec or 0), _lang(language)),
        # Such as `4m 0s`.
        age=duration_text(round(facts.value), _lang(language)),
    )


def _lang(language: AlertLanguage) -> Lang:
    return "ja" if language is AlertLanguage.JA else "en"


def message_title(record: AlertRecord, occurrence: AlertOccurrence | None, phase: Phase) -> str:
    """`occurrence` is None for a test."""
    language = record.language
    head = _HEADS[language][phase]
    if occurrence is None:
        return f"{head}: {_TEST[language].format(alert_id=record.alert_id)}"
    is_met = phase == "fired"
    return f"{head}: {condition_text(occurrence.rule, occurrence.facts, language, is_met=is_met)}"


def message_lines(
    record: AlertRecord, occurrence: AlertOccurrence | None, phase: Phase, public_url: str
) -> Sequence[str]:
    """What follows the title: the runs, the note of the alert, and where to look."""
    is_english = record.language is AlertLanguage.EN
    lines = [f"{'Alert id' if is_english else 'アラート ID'}: {record.alert_id}"]
    if record.note:
        lines.append(f"{'Note' if is_english else 'メモ'}: {record.note}")
    base = public_url.rstrip("/")
    run_ids = occurrence.facts.run_ids if occurrence is not None and phase == "fired" else []
    lines += [f"{base}/#/runs/{run_id}" if base else f"run: {run_id}" for run_id in run_ids]
    if base:
        lines.append(f"{base}/#/alerts/{record.alert_id}")
    return lines


def _flows(rule: AlertRule, facts: AlertFacts, language: AlertLanguage) -> str:
    if rule.flow_name is not None and "*" not in rule.flow_name:
        return rule.flow_name
    separator = ", " if language is AlertLanguage.EN else "、"
    return separator.join(facts.flows) or (rule.flow_name or "")


def _runs(facts: AlertFacts, language: AlertLanguage) -> str:
    count = f"{facts.value:.0f}"
    if language is AlertLanguage.JA:
        return f"{count}件以上" if facts.or_more else f"{count}件"
    word = "run" if facts.value == 1 else "runs"
    return f"{count} or more runs" if facts.or_more else f"{count} {word}"
