"""Commands that are printed for copying name the gateway of the command, and stay on one line."""

import io
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.cli.commands.runs.run_commands import explanation_view
from pyoco_server.cli.server.dev_command import _first_commands
from pyoco_server.cli.views.console import OutputFormat, show
from pyoco_server.cli.views.copied_commands import use_server, with_server
from pyoco_server.cli.views.run_views import NewQuestions, ended_run_view, run_view

RUN_ID = "00000000-0000-4000-8000-000000000000"
SERVER = "https://pyoco.team.example.com:8443"
RUN: dict[str, Any] = {
    "run_id": RUN_ID,
    "flow_name": "expense",
    "params": {},
    "tasks": {"approve": "WAITING"},
    "tag": "default",
    "open_waits": [
        {"wait_id": f"{RUN_ID}.a", "task": "approve", "message": "Pay?", "deadline_at": time.time() + 60}
    ],
}


@pytest.fixture(autouse=True)
def _other_gateway() -> Iterator[None]:
    use_server(SERVER)
    yield
    use_server(None)


def lines(value: Any, view: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a terminal of 80 columns gets."""
    monkeypatch.setenv("COLUMNS", "80")
    with redirect_stdout(io.StringIO()) as written:
        show(value, OutputFormat.TABLE, view)
    return written.getvalue().splitlines()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"status": "WAITING_HUMAN"},
            f"Answer with: pyoco-client --server {SERVER} resume {RUN_ID}",
        ),
        (
            {"status": "FAILED", "reason": "human_timeout"},
            f"Ask again with: pyoco-client --server {SERVER} retry {RUN_ID}",
        ),
    ],
)
@pytest.mark.parametrize("view", [run_view, ended_run_view])
def test_of_a_run(
    view: Callable[[Any], Any], changes: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert expected in lines({**RUN, **changes}, view, monkeypatch)


def test_of_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    def action(command: str | None, request: str | None) -> dict[str, Any]:
        return {"text": "Do something about it", "command": command, "request": request}

    actions = [
        action(f"pyoco-client rerun --run-id {RUN_ID} --from failed", None),
        action("pyoco-worker --flows ./flows --tag default", None),
        action(None, f"POST /runs/{RUN_ID}/rerun"),
    ]
    finding = {
        "message": "It failed.",
        "code": "failed",
        "next": {"by_itself": "Nothing.", "actions": actions},
    }
    shown = lines({"findings": [finding]}, explanation_view, monkeypatch)
    assert f"    pyoco-client --server {SERVER} rerun --run-id {RUN_ID} --from failed" in shown
    assert "    pyoco-worker --flows ./flows --tag default" in shown
    assert f"    POST /runs/{RUN_ID}/rerun" in shown


def test_of_a_question_while_a_command_waits() -> None:
    asked = list(NewQuestions().lines({**RUN, "status": "WAITING_HUMAN"}))
    assert asked[1] == f"  answer with: pyoco-client --server {SERVER} resume {RUN_ID}"


def test_the_first_command_of_dev_does_not_wait_for_days() -> None:
    stack: Any = SimpleNamespace(gateway_url=SERVER, worker_facts=SimpleNamespace(flows=["expense"]))
    submit = f"--server {SERVER} submit --flow-name expense --wait --timeout-sec 60"
    assert _first_commands(stack)[0].endswith(submit)


def test_without_a_given_server_the_command_is_short() -> None:
    use_server(None)
    assert with_server("pyoco-client waits") == "pyoco-client waits"
