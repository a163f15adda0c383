"""Settings of an agent: which source counts, and errors that name key, value and cure."""

import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.agent.agent_settings import load_settings
from pyoco_server.agent.flow.worker_setup import worker_environment
from pyoco_server.errors import ConfigError


def write(repo: Path, config: Any) -> None:
    (repo / ".aiflowrc.json").write_text(config if isinstance(config, str) else json.dumps(config))


def test_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environ={})
    assert (settings.requests_dir, settings.runs_dir, settings.base_branch) == ("requests", "runs", "main")
    assert (settings.branch_prefix, settings.remote, settings.plan_retries) == ("ai/", "origin", 2)
    assert (settings.port, str(settings.time_zone), settings.cli("planner")) == (8000, "Asia/Tokyo", None)


def test_command_line_comes_before_environment_before_file_before_default(tmp_path: Path) -> None:
    write(tmp_path, {"server": {"port": 1}, "git": {"baseBranchDefault": "file", "remoteName": "up"}})
    environ = {"AIFLOW_PORT": "2", "AIFLOW_BASE_BRANCH": "env"}
    settings = load_settings(tmp_path, overrides={"server.port": 3}, environ=environ)
    assert (settings.port, settings.base_branch, settings.remote, settings.host) == (
        3,
        "env",
        "up",
        "127.0.0.1",
    )
    assert load_settings(tmp_path, environ={}).port == 1


def test_option_that_was_not_given_does_not_count(tmp_path: Path) -> None:
    assert load_settings(tmp_path, overrides={"server.port": None}, environ={"AIFLOW_PORT": "2"}).port == 2


def test_worker_sees_the_same_settings(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path, overrides={"git.baseBranchDefault": "dev", "server.port": 0}, environ={}
    )
    environ = worker_environment(settings)
    assert environ["AIFLOW_REPO"] == str(tmp_path)
    assert load_settings(Path(environ["AIFLOW_REPO"]), environ=environ) == settings


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("{", ".aiflowrc.json is not valid JSON"),
        ("[]", "must contain one JSON object"),
        ({"gut": {}}, "gut is not a group of settings; use ai, commands, git, paths, runner, server"),
        ({"git": {"base": "x"}}, "git.base is not a setting; the settings are: ai.env"),
        ({"git": []}, "git=[]: use an object"),
        ({"git": {"baseBranchDefault": "-x"}}, 'git.baseBranchDefault="-x": use the name of a branch'),
        ({"git": {"branchPrefix": "a b"}}, 'git.branchPrefix="a b"'),
        ({"git": {"remoteName": "--x"}}, 'git.remoteName="--x": use the name of a remote'),
        ({"git": {"repoWebUrl": "javascript:x"}}, "git.repoWebUrl"),
        ({"git": {"repoWebUrl": "https://user:pw@h/x"}}, "git.repoWebUrl"),
        ({"paths": {"requestsDir": "../x"}}, 'paths.requestsDir="../x": use a folder below the repository'),
        ({"paths": {"requestsDir": "/x"}}, "paths.requestsDir"),
        ({"paths": {"requestsDir": ".git"}}, "paths.requestsDir"),
        ({"paths": {"requestsDir": "x", "runsDir": "x"}}, "use another folder than paths.requestsDir"),
        ({"ai": {"implementer": "codex {prompt}"}}, "a shell string is never executed"),
        ({"ai": {"implementer": ["codex"]}}, "must contain {prompt} or {prompt_file}"),
        ({"ai": {"implementer": ["{prompt}", "{prompt}"]}}, "must not contain a placeholder"),
        ({"ai": {"implementer": []}}, "use a list of texts"),
        ({"ai": {"timeoutSec": 0}}, "ai.timeoutSec=0: use a number of seconds above 0"),
        ({"ai": {"timeoutSec": True}}, "ai.timeoutSec=true"),
        ({"ai": {"env": ["PYOCO_API_KEY"]}}, "it may hold a secret of the server"),
        ({"ai": {"env": ["GIT_SSH_COMMAND"]}}, "or direct git"),
        ({"ai": {"env": ["A=b"]}}, "is not the name of an environment variable"),
        ({"commands": {"unitTest": "make test"}}, "a shell string is never executed"),
        ({"runner": {"planRetries": -1}}, "runner.planRetries=-1: use a whole number from 0 to 20"),
        ({"runner": {"timeZone": "Mars"}}, "runner.timeZone"),
        ({"server": {"port": 70000}}, "server.port=70000: use a port"),
    ],
)
def test_wrong_value_is_named_with_its_cure(tmp_path: Path, config: Any, expected: str) -> None:
    write(tmp_path, config)
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path, environ={})
    assert expected in str(refused.value)


def test_wrong_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='AIFLOW_PORT="eighty": use a port'):
        load_settings(tmp_path, environ={"AIFLOW_PORT": "eighty"})


def test_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".aiflowrc.json").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="is not a regular file"):
        load_settings(tmp_path, environ={})


def test_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".aiflowrc.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="is not valid JSON"):
        load_settings(tmp_path, environ={})


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        load_settings(tmp_path / "none", environ={})


def test_planner_without_a_command_is_the_implementer(tmp_path: Path) -> None:
    command = ("a", "{prompt}")
    write(tmp_path, {"ai": {"implementer": command}})
    settings = load_settings(tmp_path, environ={})
    commands = {role: settings.cli(role) for role in ("planner", "implementer", "qa", "fallback")}
    assert commands == {"planner": command, "implementer": command, "qa": None, "fallback": None}
