"""An alerts.yaml: secrets from the environment, and problems that show none."""

from pathlib import Path
from textwrap import dedent

import pytest

from pyoco_server.cli.commands.monitoring.alert_file import FileAlert, read_alert_file
from pyoco_server.errors import InvalidRequest

URL = "https://hooks.slack.com/services/very-secret"


def read(folder: Path, text: str, **environ: str) -> list[FileAlert]:
    path = folder / "alerts.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    return read_alert_file(path, environ)


def problems(folder: Path, text: str, **environ: str) -> set[str]:
    with pytest.raises(InvalidRequest) as refused:
        read(folder, text, **environ)
    assert "very-secret" not in str(refused.value)
    return {each.field for each in refused.value.problems}


def test_a_url_is_taken_from_the_environment(tmp_path: Path) -> None:
    text = """
        alerts:
          - alert_id: orders
            condition: run_failed
            flow_name: orders
            channels: [{name: team, kind: slack, url_env: SLACK_URL}]
    """
    [alert] = read(tmp_path, text, SLACK_URL=URL)
    assert alert.alert_id == "orders"
    assert alert.body["channels"] == [{"name": "team", "kind": "slack", "url": URL}]
    assert problems(tmp_path, text) == {"alerts[0].channels[0].url_env"}


def test_every_entry_is_checked_before_anything_is_applied(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        f"""
        alerts:
          - alert_id: a.b
            condition: run_failed
            channels: []
          - alert_id: orders
            condition: sometimes
            channels: [{{name: team, kind: slack, url: "{URL}"}}]
          - alert_id: more
            condition: failures
            channels: "{URL}"
        """,
    )
    assert found == {"alerts[0].alert_id", "alerts[1].condition", "alerts[2].channels"}


@pytest.mark.parametrize("text", ["", "alerts: 1", f"alerts: [{URL}: [", f"other: {URL}\nalerts: []"])
def test_a_file_that_is_no_list_of_alerts_is_refused(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)


def test_an_id_stands_once_in_a_file(tmp_path: Path) -> None:
    channel = "{name: m, kind: mail, to: [a@b.c]}"
    entry = f"{{alert_id: orders, condition: run_failed, flow_name: a, channels: [{channel}]}}"
    assert problems(tmp_path, f"alerts: [{entry}, {entry}]") == {"alert_id"}
