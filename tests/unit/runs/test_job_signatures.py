"""What the signature of a job covers."""

from datetime import date
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import (
    Job,
    RerunMode,
    RunStatus,
    decode_snapshot,
    encode,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle.job_signatures import signature_of
from pyoco_server.runs.lifecycle.submission import new_job

SECRET = b"s" * 32
# Every field of a job that a snapshot has, with another value.
CHANGED: dict[str, Any] = {
    "run_id": "0" * 8,
    "flow_name": "other",
    "tag": "gpu",
    "submitted_at": 1.0,
    "tags": ["x"],
    "params": {"a": 2},
    "params_sha256": "0" * 64,
    "params_bytes": 7,
    "workflow_yaml_sha256": "0" * 64,
    "workflow_yaml_bytes": 1,
    "timeout_sec": 5.0,
    "origin_run_id": "x",
    "rerun_mode": RerunMode.FAILED,
    "rerun_task": "load",
    "keep_answers": True,
    "cause": Cause(kind=CauseKind.SCHEDULE, id="nightly"),
    "start_at": 1_800_000_000.0,
    "tenant_id": "acme",
    "api_key_id": "key",
}
NOT_SIGNED = {"generation", "signature", "workflow_yaml"}
RUN = pending_snapshot(new_job(flow_name="f", tag="t", params={"a": [1, 2.5, None, "あ", {"b": -0.0}]}))


@pytest.mark.parametrize("field", CHANGED)
def test_a_changed_field_is_noticed(field: str) -> None:
    changed = structs.replace(RUN, **{field: CHANGED[field]})
    assert signature_of(changed, SECRET) != signature_of(RUN, SECRET)


def test_a_new_field_of_a_job_is_either_signed_or_named_here() -> None:
    assert {*CHANGED, *NOT_SIGNED} == set(Job.__struct_fields__)


def test_a_new_field_needs_a_default() -> None:
    """Omitted at its default, so that the signatures of earlier versions stay valid."""
    assert Job.__struct_config__.omit_defaults
    required = set(Job.__struct_fields__[: len(Job.__struct_fields__) - len(Job.__struct_defaults__)])
    assert required <= {"run_id", "flow_name", "tag", "submitted_at"}


@pytest.mark.parametrize(
    "changes", [{"status": RunStatus.RUNNING}, {"attempt": 3}, {"generation": 2}, {"error": "x"}], ids=str
)
def test_the_state_of_a_run_is_not_signed(changes: dict[str, Any]) -> None:
    assert signature_of(structs.replace(RUN, **changes), SECRET) == signature_of(RUN, SECRET)


VALUES = {"numbers": [1, 2**70, 0.1, 1e22, -0.0], "texts": ["", "\u2028あ\n"], "day": date(2026, 1, 2)}


@pytest.mark.parametrize("timeout_sec", [None, 60, 0.5])
@pytest.mark.parametrize("params", [{}, VALUES], ids=["none", "all kinds"])
def test_a_stored_run_has_the_same_signature(timeout_sec: float | None, params: dict[str, Any]) -> None:
    run = pending_snapshot(new_job(flow_name="f", tag="t", params=params, timeout_sec=timeout_sec))
    assert signature_of(decode_snapshot(encode(run)), SECRET) == signature_of(run, SECRET)


def test_another_secret_signs_otherwise() -> None:
    assert signature_of(RUN, b"t" * 32) != signature_of(RUN, SECRET)
