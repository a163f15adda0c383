"""Which files fit into the limits of artifacts."""

from dataclasses import replace

import pytest

from pyoco_server.worker.artifacts.artifact_folder import FileMark, FoundFile
from pyoco_server.worker.session.artifact_limits import ArtifactLimits

LIMITS = ArtifactLimits(file_bytes=100, run_count=3, run_bytes=250, tenant_bytes=1000)


def a_file(name: str, size: int) -> FoundFile:
    return FoundFile(name, name, size, FileMark(1, 1, size, 0, 0))


def chosen(
    limits: ArtifactLimits, files: dict[str, int], stored: dict[str, int], tenant_used: int = 0
) -> tuple[list[str], dict[str, str]]:
    left_out: dict[str, str] = {}

    def leave_out(file: FoundFile, why: str) -> None:
        left_out[file.name] = why

    found = [a_file(name, size) for name, size in files.items()]
    fitting = limits.fitting(found, stored, tenant_used=tenant_used, leave_out=leave_out)
    return [file.name for file in fitting], left_out


@pytest.mark.parametrize(
    ("files", "stored", "tenant_used", "fitting", "why"),
    [
        ({"a": 100, "b": 101}, {}, 0, ["a"], "it has 101 bytes, PYOCO_ARTIFACT_MAX_BYTES=100"),
        (
            dict.fromkeys("abcd", 1),
            {},
            0,
            ["a", "b", "c"],
            "the run has no room for another file, PYOCO_ARTIFACT_RUN_MAX_COUNT=3",
        ),
        ({"a": 100, "b": 100, "c": 51}, {}, 0, ["a", "b"], "251 bytes, PYOCO_ARTIFACT_RUN_MAX_BYTES=250"),
        ({"a": 1}, {"x": 250}, 250, [], "251 bytes, PYOCO_ARTIFACT_RUN_MAX_BYTES=250"),
        ({"a": 1, "b": 1}, {}, 999, ["a"], "1001 bytes, PYOCO_ARTIFACT_TENANT_MAX_BYTES=1000"),
    ],
    ids=["file", "count", "run", "beside stored files", "tenant"],
)
def test_a_file_above_a_limit_is_left_out_with_the_setting(
    files: dict[str, int], stored: dict[str, int], tenant_used: int, fitting: list[str], why: str
) -> None:
    found, left_out = chosen(LIMITS, files, stored, tenant_used)
    assert found == fitting
    [reason] = left_out.values()
    assert why in reason


def test_a_smaller_file_still_fits_after_one_that_does_not() -> None:
    assert chosen(LIMITS, {"a": 100, "b": 200, "c": 100}, {})[0] == ["a", "c"]


def test_a_replaced_file_counts_once() -> None:
    stored = {"a": 100, "b": 100, "c": 50}
    assert chosen(LIMITS, {"a": 100, "c": 50}, stored, 1000) == (["a", "c"], {})


def test_no_limit_of_the_tenant() -> None:
    assert chosen(replace(LIMITS, tenant_bytes=0), {"a": 1}, {}, 10**12)[0] == ["a"]


def test_a_count_of_zero_stores_nothing() -> None:
    assert chosen(replace(LIMITS, run_count=0), {"a": 1}, {})[0] == []
