"""The settings of workflow events stand under the names, defaults and bounds of their contract."""

import logging
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.config.settings_table import SETTINGS
from pyoco_server.errors import ConfigError

WEBHOOK = "https://chat.googleapis.com/v1/spaces/SPACE/messages?key=KEY&token=TOKEN"
DEFAULTS = {
    "AX_WORKFLOW_EVENT_TOKEN": "",
    "AX_WORKFLOW_EVENT_MAX_RECEIPTS": 1000,
    "AX_WORKFLOW_EVENT_RECEIPT_TTL_DAYS": 90,
    "AX_WORKFLOW_EVENT_RETRY_MAX_ATTEMPTS": 3,
    "AX_WORKFLOW_EVENT_RETRY_BASE_DELAY_SECONDS": 30,
    "AX_WORKFLOW_EVENT_RETRY_TERMINAL_TTL_DAYS": 30,
    "AX_WORKFLOW_EVENT_RETRY_MAX_JOBS": 2000,
    "AX_WORKFLOW_EVENT_RETRY_WORKER_ENABLED": True,
    "AX_WORKFLOW_EVENT_RETRY_WORKER_POLL_SECONDS": 30,
    "AX_GOOGLE_CHAT_WEBHOOK_URL": "",
}


def from_env(**environ: str) -> NatsBackendConfig:
    return NatsBackendConfig.from_env({"PYOCO_LOAD_DOTENV": "0", **environ})


def test_the_names_and_defaults_are_those_of_the_contract() -> None:
    assert {row.name: row.default for row in SETTINGS if row.name.startswith("AX_")} == DEFAULTS


def test_a_setting_is_read_from_the_environment_and_its_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_text("AX_WORKFLOW_EVENT_MAX_RECEIPTS=7\nAX_WORKFLOW_EVENT_TOKEN=of-file\nAX_OTHER=1\n")
    config = NatsBackendConfig.from_env({"PYOCO_ENV_FILE": str(file), "AX_WORKFLOW_EVENT_TOKEN": "of-env"})
    assert (config.workflow_event_max_receipts, config.workflow_event_token) == (7, "of-env")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("AX_WORKFLOW_EVENT_MAX_RECEIPTS", ("0", "1000001", "x")),
        ("AX_WORKFLOW_EVENT_RECEIPT_TTL_DAYS", ("0", "3651")),
        ("AX_WORKFLOW_EVENT_RETRY_MAX_ATTEMPTS", ("0", "11")),
        ("AX_WORKFLOW_EVENT_RETRY_BASE_DELAY_SECONDS", ("0", "3601")),
        ("AX_WORKFLOW_EVENT_RETRY_TERMINAL_TTL_DAYS", ("0", "3651")),
        ("AX_WORKFLOW_EVENT_RETRY_MAX_JOBS", ("9", "20001")),
        ("AX_WORKFLOW_EVENT_RETRY_WORKER_ENABLED", ("maybe",)),
        ("AX_WORKFLOW_EVENT_RETRY_WORKER_POLL_SECONDS", ("4", "3601")),
        ("AX_GOOGLE_CHAT_WEBHOOK_URL", ("https://example.com/hook",)),
    ],
)
def test_a_value_out_of_its_bounds_is_refused_by_its_name(name: str, wrong: tuple[str, ...]) -> None:
    for text in wrong:
        with pytest.raises(ConfigError) as raised:
            from_env(**{name: text})
        assert [problem.field for problem in raised.value.problems] == [name]


def test_secrets_are_not_shown_and_not_given_to_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"AX_WORKFLOW_EVENT_TOKEN": "the-token", "AX_GOOGLE_CHAT_WEBHOOK_URL": WEBHOOK}
    shown = repr(from_env(**secrets))
    assert "the-token" not in shown
    assert "TOKEN&" not in shown
    assert WEBHOOK not in shown
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    assert not set(secrets) & set(environment_without_secrets())


def test_a_misspelt_name_is_reported_and_variables_of_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        from_env(AX_WORKFLOW_EVENT_TOKENS="x", AX_OTHER_PRODUCT="y")
    assert "did you mean AX_WORKFLOW_EVENT_TOKEN?" in caplog.text
    assert "AX_OTHER_PRODUCT" not in caplog.text
