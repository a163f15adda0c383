"""The error table is complete, and an error reads as a sentence."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

import pyoco_server
from pyoco_server.errors import (
    AnswersBusy,
    ApiKeyInvalid,
    ApiKeyMissing,
    BulkNotFound,
    BulkRefused,
    ConfigError,
    DeadLetterNotFound,
    EmbeddedServerError,
    FieldProblem,
    FlowNotFound,
    IdempotencyConflict,
    IndexNotReady,
    InvalidAnswer,
    InvalidCliArgument,
    InvalidListQuery,
    InvalidRequest,
    InvalidWorkersRequest,
    NatsForbidden,
    NatsUnavailable,
    NotAssigned,
    NotReplayable,
    OriginRefused,
    ProposalChanged,
    PyocoError,
    RateLimited,
    RunConflict,
    RunNotFound,
    ScopeMissing,
    UploadsBusy,
    WaitConflict,
    WaitExpired,
    WaitNotFound,
    WheelNotFound,
    WheelTooLarge,
    WheelVersionRejected,
    WorkerNotFound,
    WorkflowTooLarge,
    exceptions,
    shortened,
)
from pyoco_server.errors.error_table import ERRORS, Err, ErrorSpec

# Word for word the MSG-PYOCO table of spec 1.
JAPANESE = (
    "稼働確認に失敗しました",
    "リクエストが不正です",
    "NATSが利用できません",
    "孤児runが残っている可能性があります（best-effort cleanup失敗）",
    "runが見つかりません",
    "flowが見つかりません",
    "実行に失敗しました",
    "terminal状態の記録に失敗しました",
    "in_progress ACK の送信に失敗しました",
    "スナップショットが大きすぎます",
    "DLQへのpublishに失敗しました（best-effort）",
    "不正なジョブを受信しました",
    "ログ出力に失敗しました（best-effort）",
    "API key が必要です",
    "API key が無効です",
    "ワークフローファイルが大きすぎます",
    "一覧クエリが不正です",
    "CLI引数が不正です（入力形式を確認してください）",
    "workersリクエストが不正です",
    "workerが見つかりません",
    "cancel要求がタイムアウトしました（best-effort）",
    "wheelバージョンが不正です（同一/過去バージョンは不可）",
    "wheelが見つかりません",
    "wheel同期に失敗しました（best-effort）",
)
OWN_NUMBERS = (25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43)

HTTP_STATUS = {
    2: 422,
    3: 503,
    5: 404,
    14: 401,
    15: 403,
    16: 413,
    17: 422,
    19: 422,
    20: 404,
    22: 409,
    23: 404,
    25: 409,
    26: 409,
    27: 404,
    28: 409,
    29: 404,
    30: 409,
    31: 503,
    32: 403,
    33: 403,
    34: 429,
    35: 404,
    36: 409,
    37: 410,
    38: 412,
    39: 422,
    40: 403,
    42: 503,
    43: 503,
}

EXCEPTIONS: tuple[tuple[type[PyocoError], ErrorSpec], ...] = (
    (InvalidRequest, Err.INVALID_REQUEST),
    (WheelTooLarge, replace(Err.INVALID_REQUEST, status=413)),
    (NatsUnavailable, Err.NATS_UNAVAILABLE),
    (NatsForbidden, NatsForbidden.error),
    (EmbeddedServerError, Err.NATS_UNAVAILABLE),
    (RunNotFound, Err.RUN_NOT_FOUND),
    (FlowNotFound, Err.FLOW_NOT_FOUND),
    (WorkflowTooLarge, Err.WORKFLOW_TOO_LARGE),
    (InvalidListQuery, Err.INVALID_LIST_QUERY),
    (InvalidWorkersRequest, Err.INVALID_WORKERS_REQUEST),
    (WorkerNotFound, Err.WORKER_NOT_FOUND),
    (WheelVersionRejected, Err.WHEEL_VERSION_REJECTED),
    (WheelNotFound, Err.WHEEL_NOT_FOUND),
    (RunConflict, Err.RUN_CONFLICT),
    (IdempotencyConflict, Err.IDEMPOTENCY_CONFLICT),
    (DeadLetterNotFound, Err.DEAD_LETTER_NOT_FOUND),
    (NotReplayable, Err.NOT_REPLAYABLE),
    (BulkNotFound, Err.BULK_NOT_FOUND),
    (BulkRefused, Err.BULK_REFUSED),
    (IndexNotReady, Err.INDEX_NOT_READY),
    (ApiKeyMissing, Err.API_KEY_MISSING),
    (ApiKeyInvalid, Err.API_KEY_INVALID),
    (ScopeMissing, Err.SCOPE_MISSING),
    (OriginRefused, Err.ORIGIN_REFUSED),
    (RateLimited, Err.RATE_LIMITED),
    (WaitNotFound, Err.WAIT_NOT_FOUND),
    (WaitConflict, Err.WAIT_CONFLICT),
    (WaitExpired, Err.WAIT_EXPIRED),
    (ProposalChanged, Err.PROPOSAL_CHANGED),
    (InvalidAnswer, Err.ANSWER_INVALID),
    (NotAssigned, Err.NOT_ASSIGNED),
    (UploadsBusy, Err.UPLOADS_BUSY),
    (AnswersBusy, Err.ANSWERS_BUSY),
    (InvalidCliArgument, Err.INVALID_CLI_ARGUMENT),
    (ConfigError, Err.INVALID_CLI_ARGUMENT),
)


def test_the_table_has_every_number_once_and_in_order() -> None:
    assert [spec.number for spec in ERRORS] == [*range(1, len(JAPANESE) + 1), *OWN_NUMBERS]


def test_the_japanese_texts_are_those_of_the_contract() -> None:
    assert tuple(spec.ja for spec in ERRORS if spec.number not in OWN_NUMBERS) == JAPANESE


def test_the_http_statuses_are_those_of_the_contract() -> None:
    assert {spec.number: spec.status for spec in ERRORS if spec.status is not None} == HTTP_STATUS


@pytest.mark.parametrize("spec", ERRORS, ids=lambda spec: spec.err_id)
def test_a_row_speaks_both_languages_and_names_a_cure(spec: ErrorSpec) -> None:
    assert spec.text("ja") == spec.ja
    assert spec.text("en") == spec.text() == spec.en
    assert spec.en.isascii()
    assert not spec.en.endswith("."), "a detail follows the text after a colon"
    assert spec.cure("en") == spec.cure() == spec.cure_en
    assert spec.cure_en.isascii()
    assert spec.cure_en.endswith(".")
    assert spec.cure("ja") == spec.cure_ja
    assert spec.cure_ja.endswith("。")


def test_the_english_texts_tell_errors_apart() -> None:
    assert len({spec.en for spec in ERRORS}) == len(ERRORS)


def test_ids_have_four_digits() -> None:
    assert Err.INVALID_REQUEST.err_id == "ERR-PYOCO-0002"
    assert Err.WHEEL_SYNC_FAILED.msg_id == "MSG-PYOCO-0024"


def test_log_fields_carry_the_ids_and_the_context() -> None:
    assert Err.EXECUTION_FAILED.log_fields(run_id="r1", reason="execution_error") == {
        "err_id": "ERR-PYOCO-0007",
        "msg_id": "MSG-PYOCO-0007",
        "run_id": "r1",
        "reason": "execution_error",
    }


@pytest.mark.parametrize(("exception", "spec"), EXCEPTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_an_exception_belongs_to_its_row(exception: type[PyocoError], spec: ErrorSpec) -> None:
    assert exception.error == spec
    made = WaitConflict("invalid_state", "") if exception is WaitConflict else exception()
    assert str(made) == spec.en


def test_the_more_special_exceptions_are_caught_by_the_general_name() -> None:
    assert issubclass(EmbeddedServerError, NatsUnavailable)
    assert issubclass(ConfigError, InvalidCliArgument)


def test_an_error_with_a_detail_is_one_sentence_in_either_language() -> None:
    error = RunNotFound("no run has the id 'abc'")
    assert str(error) == "The run was not found: no run has the id 'abc'"
    assert error.sentence("ja") == "runが見つかりません: no run has the id 'abc'"


def test_an_error_without_a_detail_lists_its_problems() -> None:
    problems = [FieldProblem("params.x", "must be an object"), FieldProblem("tag", "is not a tag", "'a.b'")]
    assert str(InvalidRequest(problems=problems)) == (
        "The request is not valid: params.x: must be an object; tag='a.b': is not a tag"
    )


def test_a_problem_of_the_input_as_a_whole_reads_as_a_sentence_too() -> None:
    error = InvalidRequest(problems=[FieldProblem("", "the body is not JSON")])
    assert str(error) == "The request is not valid: the body is not JSON"


def test_every_exception_is_used_and_is_drawn_in_the_tree() -> None:
    """One that nothing raises would promise what never happens."""
    package = Path(pyoco_server.__file__).parent
    others = [path for path in package.rglob("*.py") if path.parent != Path(exceptions.__file__).parent]
    code = "\n".join(path.read_text(encoding="utf-8") for path in others)
    declared = [
        name
        for name, found in vars(exceptions).items()
        if isinstance(found, type) and issubclass(found, PyocoError) and found is not PyocoError
    ]
    assert declared == [exception.__name__ for exception, _ in EXCEPTIONS]
    for name in declared:
        assert re.search(rf"\b{name}\b", code), f"nothing uses {name}"
    assert re.findall(r"─ (\w+)", exceptions.__doc__ or "") == declared


def test_a_detail_is_not_repeated_by_the_problems() -> None:
    error = InvalidRequest("two fields are wrong", problems=[FieldProblem("tag", "is not a tag")])
    assert str(error) == "The request is not valid: two fields are wrong"
    assert error.problems == (FieldProblem("tag", "is not a tag"),)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (FieldProblem("flow.graph", "unknown task"), "flow.graph: unknown task"),
        (FieldProblem("flow.graph", "unknown task", "'lod'"), "flow.graph='lod': unknown task"),
        (FieldProblem("flow.graph", "unknown task", line=3), "flow.graph (line 3): unknown task"),
        (
            FieldProblem("flow.graph", "unknown task", "'lod'", 3, 9),
            "flow.graph='lod' (line 3, column 9): unknown task",
        ),
        (FieldProblem("", "the body is not JSON"), "the body is not JSON"),
        (FieldProblem("", "expected an object", "[1]"), "[1]: expected an object"),
        (FieldProblem("", "the body is not JSON", line=3), "line 3: the body is not JSON"),
        (FieldProblem("", "expected an object", "[1]", 3, 9), "[1] (line 3, column 9): expected an object"),
    ],
)
def test_a_problem_says_where_it_is(problem: FieldProblem, text: str) -> None:
    assert str(problem) == text


def test_an_error_survives_the_way_between_processes() -> None:
    error = InvalidRequest("bad", problems=[FieldProblem("tag", "is not a tag")])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InvalidRequest
    assert (str(again), again.detail, again.problems) == (str(error), error.detail, error.problems)


def test_a_long_value_is_cut_where_it_is_shown() -> None:
    assert shortened("short") == "'short'"
    shown = shortened("x" * 1000)
    assert len(shown) == 80
    assert shown.endswith("…")
