"""What the worker of a repository is started with: its flows and its environment."""

from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_settings import SETTINGS, AgentSettings
from pyoco_server.agent.flow.work_session import REPO_VARIABLE

# For `--flows` of the worker. Not a package: a worker imports its files by their names.
FLOWS_FOLDER: Final = Path(__file__).parent / "flows"

# A run survives that its executor is killed; one that crashes by itself ends at some time.
_CRASHES: Final = {"PYOCO_EXECUTOR_CRASH_RETRIES": "5"}


def worker_environment(settings: AgentSettings) -> dict[str, str]:
    """Variables for the worker's process, by which it uses the same repository and settings as the gateway.

    The working directory of that process must not be the repository: Python files of it could be imported.
    """
    values = {setting.variable: getattr(settings, setting.field) for setting in SETTINGS if setting.variable}
    given = {name: str(value) for name, value in values.items() if name is not None and value is not None}
    return {REPO_VARIABLE: str(settings.repo), **_CRASHES, **given}
