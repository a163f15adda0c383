"""The searched text of a run's params: keys and values, not JSON syntax."""

import json
from typing import Any

import pytest

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.index.run_summary import RunSummary, summary_of
from pyoco_server.runs.index.search.run_filter import RunFilter


def summary(params: Any, *, ensure_ascii: bool = True) -> RunSummary:
    run = {"run_id": new_run_id(), "flow_name": "f", "status": "PENDING", "updated_at": 1.0, "params": params}
    return summary_of(json.dumps(run, ensure_ascii=ensure_ascii).encode())


def test_an_item_has_the_last_heartbeat_if_it_is_known() -> None:
    run = {"run_id": new_run_id(), "flow_name": "f", "status": "RUNNING", "updated_at": 1.0}
    assert summary_of(json.dumps(run).encode()).item.heartbeat_at is None
    assert summary_of(json.dumps({**run, "heartbeat_at": 2.5}).encode()).item.heartbeat_at == 2.5


@pytest.mark.parametrize(("status", "shown"), [("WAITING_HUMAN", 1), ("PENDING", 1), ("COMPLETED", 0)])
def test_open_questions_are_listed_also_of_a_run_that_is_queued_again(status: str, shown: int) -> None:
    run = {"run_id": new_run_id(), "flow_name": "f", "status": status, "updated_at": 1.0, "waited_sec": 2.0}
    waits = {"open_waits": [{"wait_id": "w"}], "wait_message": "?", "wait_deadline_at": 9.0}
    item = summary_of(json.dumps({**run, **waits}).encode()).item
    assert (item.open_waits, item.wait_message) == (shown, "?" if shown else None)


def test_a_continuation_after_an_answer_is_no_attempt() -> None:
    run = {"run_id": new_run_id(), "flow_name": "f", "status": "COMPLETED", "updated_at": 1.0, "attempt": 4}
    assert summary_of(json.dumps(run).encode()).item.attempt == 4
    assert summary_of(json.dumps({**run, "continuations": 3}).encode()).item.attempt == 1


PARAMS = {
    "text": 'say "hi"',
    "Path": "C:\\temp",
    "nested": [{"deep": ["two\nlines", 3.5, 12345678901234567890123, True, None]}],
    "日本": "売上",
}


@pytest.mark.parametrize(
    "q",
    [
        *('say "hi"', "C:\\temp", "path", "deep", "two\nlines"),
        *("3.5", "12345678901234567890123", "TRUE", "null", "日本", "売上"),
    ],
)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_key_or_value_is_found(q: str, ensure_ascii: bool) -> None:
    assert RunFilter(q=q).matches(summary(PARAMS, ensure_ascii=ensure_ascii))


@pytest.mark.parametrize("q", ['"', "{", "[", "}", '":', "\\"])
def test_json_syntax_is_not_searched(q: str) -> None:
    assert not RunFilter(q=q).matches(summary({"a": "b", "c": [1, {"d": "e\n"}]}))


def test_only_the_beginning_of_large_params_is_searched() -> None:
    found = summary({"long": "x" * 1990, "next": "cutoff", "last": "z" * 5000})
    assert RunFilter(q="x" * 200).matches(found)
    assert not RunFilter(q="z").matches(found)
    assert len(found.text) <= 2000 + len("f\n\n\n")
    assert len(summary({"long": "x" * 100_000}).text) == 2000 + len("f\n\n\n")


def test_params_that_are_nested_deeply_are_searched_without_recursion() -> None:
    params: Any = "bottom"
    for _ in range(400):
        params = [params]
    assert RunFilter(q="bottom").matches(summary({"deep": params}))


def test_a_run_with_undecodable_params_is_unreadable() -> None:
    data = (
        f'{{"run_id":"{new_run_id()}","flow_name":"f","status":"PENDING","updated_at":1,"params":{{"a":"'
    ).encode() + b'\xff"}}'
    with pytest.raises(UnreadableRecord, match="can't decode byte 0xff"):
        summary_of(data)
