"""How `pyoco-server dev` logs: as the user has set it, otherwise warnings as text."""

from pathlib import Path

import pytest

from pyoco_server.cli.server.dev_command import dev_settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PYOCO_LOG_FORMAT", "PYOCO_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_is_warnings_as_text() -> None:
    config = dev_settings(None)
    assert (config.log_format, config.log_level) == ("text", "WARNING")


def test_the_environment_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "json")
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "INFO")
    config = dev_settings(None)
    assert (config.log_format, config.log_level) == ("json", "INFO")


def test_the_environment_file_is_respected(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PYOCO_LOG_FORMAT=json\n")
    assert dev_settings(None).log_format == "json"
