"""The environment of programs that an agent starts: chosen variables, and programs of absolute paths."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.aio.marked_processes import MARK_VARIABLE
from pyoco_server.errors import shortened

# By its mark a worker finds, and kills, what a task has started (worker/executors/task_processes.py).
_INHERITED: Final = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", MARK_VARIABLE)


def chosen_environment(
    names: Iterable[str] = (), extra: Mapping[str, str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """PATH, HOME and the locale, the variables of these names, and `extra`; never a secret of the server."""
    inherited = {name: environ[name] for name in (*_INHERITED, *names) if name in environ}
    return {**inherited, "PATH": absolute_path(environ), "TERM": "dumb", **(extra or {})}


def absolute_path(environ: Mapping[str, str] = os.environ) -> str:
    """PATH without relative and empty entries: those would find programs in the worktree."""
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath


def program_path(program: str, folder: Path) -> str:
    """The file to execute; one with a slash is looked for in the repository's folder, not in the worktree."""
    if "/" in program:
        found = shutil.which(str(folder / program))
    else:
        found = shutil.which(program, path=absolute_path())
    if found is None:
        raise AgentError(
            AgentCode.COMMAND_NOT_FOUND,
            f"The command {shortened(program)} was not found.",
            hint="Install it, or name another one in .aiflowrc.json.",
        )
    return found
