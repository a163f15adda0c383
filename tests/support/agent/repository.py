"""A repository with a bare remote, a coding CLI that is scripted, and requests."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyoco_server.agent.agent_settings import AgentSettings, load_settings
from pyoco_server.agent.request_folder import NewRequest
from tests.support.agent import scripted_cli

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
WEB_URL = "https://github.com/acme/app"


class AgentRepository:
    """`repo` is a clone of `origin.git` with a base `main`; in `cli` the scripted CLI keeps its files."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.repo = folder / "repo"
        self.origin = folder / "origin.git"
        self.cli = folder / "cli"
        self.cli.mkdir(parents=True)
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.origin))
        git(folder, "init", "-q", "-b", "main", str(self.repo))
        # Relative, as git allows: to the repository, not to a worktree.
        git(self.repo, "remote", "add", "origin", "../origin.git")
        (self.repo / "README.md").write_text("An app\n")
        self.configure(config)
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "-m", "init")
        git(self.repo, "push", "-q", "origin", "main")

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write .aiflowrc.json; groups are merged with those that a test needs."""
        # Isolated and without `site`, which it does not need.
        command = [sys.executable, "-IS", scripted_cli.__file__, str(self.cli), "{prompt_file}"]
        base: dict[str, dict[str, Any]] = {
            "git": {"repoWebUrl": WEB_URL},
            "ai": {"implementer": command, "timeoutSec": 60},
            "runner": {"timeZone": "Asia/Tokyo"},
        }
        for group, values in config.items():
            base[group] = {**base.get(group, {}), **values}
        (self.repo / ".aiflowrc.json").write_text(json.dumps(base))

    @property
    def settings(self) -> AgentSettings:
        return load_settings(self.repo, environ={})

    def script(self, **actions: Sequence[Mapping[str, Any]]) -> None:
        """What the CLI does, by `planner`, `qa`, `S01` and so on."""
        (self.cli / "script.json").write_text(json.dumps(actions))

    def request(
        self, title: str = "Write three files", want: str = "Three files, please.", **fields: Any
    ) -> str:
        new = NewRequest(title=title, base="main", want=want, **fields)
        self.settings.paths.prepare()
        return self.settings.paths.requests.create(new, datetime.now(UTC)).request_id

    def header(self, request_id: str) -> dict[str, Any]:
        return dict(self.settings.paths.requests.read(request_id).fields)

    def calls(self) -> list[str]:
        """The roles and steps of the calls of the CLI."""
        log = self.cli / "calls.log"
        return [line.split(" ")[0] for line in log.read_text().splitlines()] if log.exists() else []

    def branch(self, request_id: str) -> str:
        return f"ai/{request_id}"

    def subjects(self, ref: str, *, remote: bool = False) -> list[str]:
        """The subjects of the commits since main, oldest first."""
        where = self.origin if remote else self.repo
        return git(where, "log", "--reverse", "--format=%s", f"main..{ref}").splitlines()

    def step_keys(self, ref: str, *, remote: bool = False) -> list[str]:
        where = self.origin if remote else self.repo
        out = git(where, "log", "--reverse", "--format=%(trailers:key=Aiflow-Step,valueonly)", f"main..{ref}")
        return out.split()


def git(folder: Path, *args: str) -> str:
    env = {**os.environ, **_IDENTITY}
    done = subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {args}: {done.stderr}"
    return done.stdout
