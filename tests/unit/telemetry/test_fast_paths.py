"""The registry of fast paths: one warning per dependency, and the newest result."""

import pytest

from pyoco_server.telemetry import fast_paths


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_paths, "_in_use", {})


def test_a_match_is_reported_without_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    assert fast_paths.report_fast_path("a-library", None)
    assert fast_paths.fast_paths() == {"a-library": True}
    assert not caplog.records


def test_a_mismatch_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    assert not fast_paths.report_fast_path("a-library", "Client._pending is missing")
    assert not fast_paths.report_fast_path("a-library", "Client._pending is missing")
    assert fast_paths.fast_paths() == {"a-library": False}
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "a-library" in record.getMessage()
    assert "Client._pending is missing" in record.getMessage()
