"""The error table is complete, and an error reads as a sentence."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

import pyoco_server
from pyoco_server import errors
from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.errors import (
    AmbiguousWait,
    ConfigError,
    EmbeddedServerError,
    EventNotProcessed,
    FieldProblem,
    InvalidCliArgument,
    InvalidRequest,
    NatsForbidden,
    NatsUnavailable,
    PyocoError,
    RunNotFound,
    UnusableConsumer,
    UnusableStream,
    WaitConflict,
    WaitExpiredForGood,
    shortened,
)
from pyoco_server.errors.error_table import ERRORS, Err, ErrorSpec, Lang
from pyoco_server.http_api.routing import find_endpoint

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
OWN_NUMBERS = (*range(25, 75), 77, 78, 79)

# With the number and the status of their base.
OWN_TEXTS = (
    AmbiguousWait,
    EventNotProcessed,
    NatsForbidden,
    UnusableConsumer,
    UnusableStream,
    WaitExpiredForGood,
)
ROWS = {spec.number: spec for spec in ERRORS}
# The exceptions as the docstring draws them: name, number, HTTP status. Without a number: those of its base.
TREE = re.findall(r"─ (\w+)(?: +ERR-PYOCO-(\d+))?(?: +(\d+))?$", errors.__doc__ or "", re.MULTILINE)


def test_the_table_has_every_number_once_and_in_order() -> None:
    assert [spec.number for spec in ERRORS] == [*range(1, len(JAPANESE) + 1), *OWN_NUMBERS]


def test_the_japanese_texts_are_those_of_the_contract() -> None:
    assert tuple(spec.ja for spec in ERRORS if spec.number not in OWN_NUMBERS) == JAPANESE


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


@pytest.mark.parametrize("spec", ERRORS, ids=lambda spec: spec.err_id)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_cure_names_only_endpoints_that_exist(spec: ErrorSpec, language: Lang) -> None:
    for method, path in re.findall(r"(GET|POST|DELETE) (/[\w/{}-]*)", spec.cure(language)):
        assert find_endpoint(method, path) is not None, f"{method} {path}"


def test_a_run_that_was_left_behind_can_be_cancelled() -> None:
    """There is no endpoint and no command that deletes a run."""
    assert "POST /runs/{run_id}/cancel" in Err.ORPHAN_RUN.cure("en")
    assert "delete" not in Err.ORPHAN_RUN.cure("en")


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


@pytest.mark.parametrize(("name", "number", "status"), TREE, ids=[name for name, *_ in TREE])
def test_an_exception_carries_the_error_that_the_tree_shows(name: str, number: str, status: str) -> None:
    exception: type[PyocoError] = getattr(errors, name)
    base = exception.__mro__[1]
    row = ROWS[int(number)] if number else base.error  # type: ignore[attr-defined]
    if status or number:
        row = replace(row, status=int(status) if status else None)
    if exception in OWN_TEXTS:
        assert (exception.error.number, exception.error.status) == (row.number, row.status)
    else:
        assert exception.error == row
    made = WaitConflict("invalid_state", "") if exception is WaitConflict else exception()
    assert str(made) == exception.error.en


def test_every_error_with_an_http_status_has_an_exception() -> None:
    assert {int(number) for _, number, status in TREE if number and status} == {
        spec.number for spec in ERRORS if spec.status is not None
    }


def test_the_more_special_exceptions_are_caught_by_the_general_name() -> None:
    assert issubclass(EmbeddedServerError, NatsUnavailable)
    assert issubclass(ConfigError, InvalidCliArgument)


def test_an_error_with_a_detail_is_one_sentence_in_either_language() -> None:
    error = RunNotFound("no run has the id 'abc'")
    assert str(error) == "The run was not found: no run has the id 'abc'"
    assert error.sentence("ja") == "runが見つかりません: no run has the id 'abc'"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidRequest(
                problems=[
                    FieldProblem("params.x", "must be an object"),
                    FieldProblem("tag", "is bad", "'a.b'"),
                ]
            ),
            "params.x: must be an object; tag='a.b': is bad",
        ),
        (InvalidRequest(problems=[FieldProblem("", "the body is not JSON")]), "the body is not JSON"),
        (InvalidRequest("two are wrong", problems=[FieldProblem("tag", "is bad")]), "two are wrong"),
    ],
    ids=["problems", "problem of the whole input", "detail instead of problems"],
)
def test_an_error_reads_as_one_sentence(error: InvalidRequest, text: str) -> None:
    assert str(error) == f"The request is not valid: {text}"


def test_every_exception_is_used_and_is_drawn_in_the_tree() -> None:
    """One that nothing raises would promise what never happens."""
    folder = Path(errors.__file__).parent
    others = [path for path in Path(pyoco_server.__file__).parent.rglob("*.py") if path.parent != folder]
    used = {word for path in others for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    declared = [
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, PyocoError) and found is not PyocoError
    ]
    assert [name for name, *_ in TREE] == declared
    assert [name for name in declared if name not in used] == []


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


def test_too_large_is_not_reported_as_an_outage() -> None:
    error = PayloadTooLarge("2000000 bytes, the server takes 1048576")
    assert str(error).startswith("A record is larger than NATS takes: 2000000 bytes")
    assert "max_payload" in error.error.cure("en")
    assert error.error.status == 503
