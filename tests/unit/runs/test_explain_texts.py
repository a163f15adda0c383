"""Each finding has a text in both languages, and is documented."""

import re
from dataclasses import replace

import pytest
from msgspec import Raw

from pyoco_server.broker.queue.queue_position import JobLocation, JobState
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.errors.error_table import Lang
from pyoco_server.records.runs.artifact_models import ArtifactSummary, LeftOut
from pyoco_server.records.runs.run_models import DeliveryId, Reason, RunStatus, TaskStatus
from pyoco_server.records.workers.worker_models import WorkerState
from pyoco_server.runs.explain.explain_rules import Finding, explain, nats_cannot_write, nats_unavailable
from pyoco_server.runs.explain.explain_texts import TEXTS, in_words, text_of
from tests.support.places import DOCS
from tests.support.samples.explain_facts import (
    NOW,
    RUN_ID,
    answered,
    busy,
    cancelling,
    facts,
    parked,
    queue,
    run,
    running,
    waiting,
    worker,
)

OPERATIONS = (DOCS / "operations.md").read_text()

LEFT_OUT = ArtifactSummary(left_out_count=1, left_out=[LeftOut(name="a", reason="it is a pipe")])
EXECUTED_AGAIN = {"a": Raw(b'{"executed_again": "the flow has changed"}')}

# One set of facts for each word that the rules know.
EXAMPLES: dict[str, Finding] = {
    finding.code: finding
    for finding in [
        nats_unavailable("refused", "connecting", NOW),
        nats_cannot_write("its disk is full", ["KV_pyoco_runs"], NOW),
        *(
            finding
            for found in [
                facts(run(RunStatus("SLEEPING"))),
                facts(run(RunStatus.SCHEDULED, start_at=NOW + 10_800)),
                facts(run(RunStatus.SCHEDULED, start_at=NOW - 60)),
                facts(run(), worker(tags=["cpu"])),
                facts(run(), worker(last_seen_at=NOW - 100)),
                facts(run(), worker(paused=True)),
                facts(run(), worker(), queue=queue(paused=True)),
                facts(run(), worker(), queue=replace(queue(), limits=DeliveryLimits(0.2, 20))),
                facts(run(), busy("w1", "x")),
                facts(run(), worker(), queue=queue(in_work=2, in_work_limit=2)),
                facts(run(), worker(), location=JobLocation(JobState.UNKNOWN)),
                facts(run(), location=JobLocation(JobState.ABSENT)),
                facts(run(), worker(), location=JobLocation(JobState.DELIVERED)),
                facts(run(), worker()),
                facts(run(), worker(executor_error="no module named 'flows'")),
                facts(running(tasks={"a": TaskStatus.RUNNING}), busy(paused=True)),
                facts(running(timeout_sec=60, attempt=2), busy(drain_requested_at=NOW)),
                facts(running(attempt=2, delivery=DeliveryId(7, 20)), busy()),
                facts(running(heartbeat_at=NOW - 50), busy(last_seen_at=NOW - 50)),
                facts(running(heartbeat_at=NOW - 50), busy()),
                facts(running(heartbeat_at=NOW - 50), worker()),
                facts(running(heartbeat_at=NOW - 50)),
                facts(running(handed_over_at=NOW - 1), busy()),
                facts(running(), worker(state=WorkerState.STOPPED_GRACEFUL)),
                facts(waiting(100.0)),
                facts(waiting(-1.0)),
                *(facts(parked(kind)) for kind in ("sleep", "signal", "event")),
                facts(parked("sleep", left_sec=-1.0)),
                facts(answered(100.0), worker(tags=["cpu"])),
                facts(waiting(100.0, asked_again="message_changed")),
                facts(cancelling(cancel_requested_at=NOW - 10), busy()),
                facts(cancelling(cancel_requested_at=NOW - 50), busy()),
                facts(cancelling(cancel_requested_at=NOW - 50, delivery=None)),
                facts(run(RunStatus.COMPLETED)),
                facts(run(RunStatus.COMPLETED, attempt=2, task_records=EXECUTED_AGAIN)),
                facts(run(RunStatus.COMPLETED, tasks={"a": TaskStatus.FAILED})),
                facts(run(RunStatus.COMPLETED, artifacts=LEFT_OUT)),
                facts(run(RunStatus.CANCELLED)),
                facts(run(RunStatus.CANCELLED, reason="cancel_forced")),
                facts(run(), worker(), authentic=False),
                facts(run(RunStatus.FAILED)),
                facts(run(RunStatus.FAILED, reason="invalid_job", error="ERR-PYOCO-0044: changed")),
                *(facts(run(RunStatus.FAILED, reason=reason)) for reason in Reason),
                facts(run(RunStatus.FAILED, reason="execution_error", tasks={"a": TaskStatus.FAILED})),
            ]
            for finding in explain(found)
        ),
    ]
}


def test_every_finding_code_has_a_text_and_no_others() -> None:
    assert set(TEXTS) == set(EXAMPLES)


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("code", EXAMPLES)
def test_every_finding_is_rendered_in_both_languages(code: str, lang: Lang) -> None:
    text = TEXTS[code]
    words = {**in_words(EXAMPLES[code].evidence, lang), "run_id": RUN_ID}
    for sentence in (text.message(words, lang), text.by_itself(words, lang)):
        assert sentence
        assert "{" not in sentence
        assert "None" not in sentence
        assert bool(re.search("[ぁ-んァ-ヶ一-龠]", sentence)) == (lang == "ja")
    for action in text.actions:
        for template in filter(None, (action.command, action.request)):
            assert not re.search(r"\{\w+\}", template.format_map(words))


@pytest.mark.parametrize(
    ("name", "value", "en", "ja"),
    [
        ("left_sec", 0.25, "250ms", "250ms"),
        ("left_sec", 3.0, "3s", "3秒"),
        ("left_sec", 59.6, "1m 0s", "1分0秒"),
        ("left_sec", 300, "5m 0s", "5分0秒"),
        ("left_sec", 10_800, "3h 0m", "3時間0分"),
        ("left_sec", 47 * 3600, "1d 23h", "1日23時間"),
        ("left_sec", 30 * 86_400, "30d 0h", "30日0時間"),
        ("ends_at", 2_000_000_000.5, "2033-05-18 03:33:20 UTC", "2033-05-18 03:33:20 UTC"),
        ("count", 3, "3", "3"),
        ("worker", None, "-", "-"),
        ("tags", [], "-", "-"),
        ("tags", ["a", "b"], "a, b", "a、b"),
        ("workers", [{"worker_id": "w1"}, {"worker_id": "w2"}], "w1, w2", "w1、w2"),
        ("failed_tasks", [{"task": "load", "error": "x"}], "load", "load"),
    ],
)
def test_evidence_is_formatted(name: str, value: object, en: str, ja: str) -> None:
    assert in_words({name: value}, "en") == {name: en}
    assert in_words({name: value}, "ja") == {name: ja}


@pytest.mark.parametrize("kind", ["signal", "event"])
def test_a_wait_without_a_timeout_shows_no_time_left(kind: str) -> None:
    [finding] = explain(facts(parked(kind, left_sec=None)))
    text = text_of(finding.code, finding.evidence)
    assert text.message(in_words(finding.evidence, "en"), "en").startswith("Task pause has been waiting for ")
    assert text.by_itself({}, "en").endswith("the wait has no timeout.")
    assert text.by_itself({}, "ja").endswith("待機に制限時間はありません。")


def test_a_failed_task_is_named_once_and_with_its_error() -> None:
    record = Raw(b'{"error": "ValueError: no"}')
    tasks = {"load": TaskStatus.FAILED, "clean": TaskStatus.FAILED}
    error = "task load: ValueError: no"
    for failed, en, ja in (
        (["load"], "Task load failed: ValueError: no", "タスク load が失敗しました: ValueError: no"),
        (
            ["load", "clean"],
            "Tasks load, clean failed. The error of the first one: ValueError: no",
            "タスク load、clean が失敗しました。最初のタスクのエラー: ValueError: no",
        ),
    ):
        ended = run(
            RunStatus.FAILED,
            reason="execution_error",
            error=error,
            tasks={name: tasks[name] for name in failed},
            task_records={"load": record},
        )
        [finding] = explain(facts(ended))
        text = text_of(finding.code, finding.evidence)
        assert text.message(in_words(finding.evidence, "en"), "en") == en
        assert text.message(in_words(finding.evidence, "ja"), "ja") == ja


def test_every_action_has_one_code() -> None:
    actions = {(action.code, action.en) for text in TEXTS.values() for action in text.actions}
    assert len({code for code, _ in actions}) == len(actions)


@pytest.mark.parametrize("code", TEXTS)
def test_every_finding_code_is_documented(code: str) -> None:
    assert f"`{code}`" in OPERATIONS


@pytest.mark.parametrize(
    ("fields", "en", "ja"),
    [
        ({}, "The run was cancelled.", "run はキャンセルされました。"),
        (
            {"cancel_requested_by": "ops"},
            "The run was cancelled by ops.",
            "run はキャンセルされました（要求者: ops）。",
        ),
        (
            {"cancel_reason": "wrong month"},
            "The run was cancelled (reason: wrong month).",
            "run はキャンセルされました（理由: wrong month）。",
        ),
        (
            {"cancel_requested_by": "ops", "cancel_reason": "wrong month"},
            "The run was cancelled (by ops, reason: wrong month).",
            "run はキャンセルされました（要求者: ops、理由: wrong month）。",
        ),
    ],
)
def test_a_cancelled_run_says_only_what_is_known(fields: dict[str, str], en: str, ja: str) -> None:
    [finding] = explain(facts(run(RunStatus.CANCELLED, **fields)))
    text = text_of(finding.code, finding.evidence)
    assert text.message(in_words(finding.evidence, "en"), "en") == en
    assert text.message(in_words(finding.evidence, "ja"), "ja") == ja


def test_a_failure_without_a_reason_shows_its_error_only() -> None:
    [finding] = explain(facts(run(RunStatus.FAILED, error="no space left")))
    text = text_of(finding.code, finding.evidence)
    assert text.message(in_words(finding.evidence, "en"), "en") == "The run has failed: no space left"
    assert text.message(in_words(finding.evidence, "ja"), "ja") == "run は失敗しました: no space left"


def test_a_position_in_the_queue_counts_jobs() -> None:
    # Those of cancelled runs stay in the queue until a worker reads them.
    for code, words in {
        "waiting_in_queue": ("job", "ジョブ"),
        "far_back_in_queue": ("jobs", "ジョブ"),
    }.items():
        text = TEXTS[code]
        assert words[0] in text.en.split()
        assert words[1] in text.ja
