"""Each test has a working directory of its own, where pyoco creates a folder for artifacts."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
