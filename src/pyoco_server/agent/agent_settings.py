"""The settings of an agent: command line, then environment, then `.aiflowrc.json`, then defaults.

A setting is one row of SETTINGS: its place in the file, its variable, its type and its default. An error
names the key, the value and the cure.
"""

import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyoco_server.agent.git.branch_names import branch_problem
from pyoco_server.agent.repo_paths import RepoPaths
from pyoco_server.agent.request_file import RequestFile
from pyoco_server.errors import ConfigError, shortened

FILE_NAME: Final = ".aiflowrc.json"
ROLES: Final = ("planner", "implementer", "qa", "fallback")
# In the arguments of a coding CLI, such as `{prompt}`.
PLACEHOLDER: Final = re.compile(r"\{(model|workdir|prompt|prompt_file)\}")
_MAX_FILE_BYTES: Final = 1024 * 1024
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What would hand our own secrets, or the control of git, to a CLI.
_FORBIDDEN_VARIABLES: Final = ("PYOCO_", "AIFLOW_", "GIT_")

Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Every setting, checked; see SETTINGS for what each means."""

    repo: Path
    requests_dir: str
    runs_dir: str
    base_branch: str
    branch_prefix: str
    remote: str
    repo_web_url: str | None
    planner: Argv | None
    implementer: Argv | None
    qa: Argv | None
    fallback: Argv | None
    model: str
    cli_timeout_sec: float
    cli_env: tuple[str, ...]
    unit_test: Argv | None
    e2e_test: Argv | None
    lint: Argv | None
    typecheck: Argv | None
    plan_retries: int
    step_fix_retries: int
    e2e_retries: int
    question_timeout_sec: float
    time_zone: ZoneInfo
    host: str
    port: int

    @property
    def paths(self) -> RepoPaths:
        return RepoPaths(self.repo, self.requests_dir, self.runs_dir)

    def base_of(self, file: RequestFile) -> str:
        return file.base or self.base_branch

    def branch_of(self, file: RequestFile) -> str:
        return file.branch or f"{self.branch_prefix}{file.request_id}"

    def cli(self, role: str) -> Argv | None:
        """The command of a role; a planner without one is the implementer."""
        commands = {
            "planner": self.planner or self.implementer,
            "implementer": self.implementer,
            "qa": self.qa,
            "fallback": self.fallback,
        }
        return commands[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: `key` is its place in .aiflowrc.json, `field` its name in AgentSettings."""

    key: str
    field: str
    help: str
    default: Any
    read: Callable[[Any], Any]
    # Reads a text of the environment; None if the setting has no variable.
    variable: str | None = None
    from_text: Callable[[str], Any] = str


class _Wrong(ValueError):
    """What was expected instead."""


def _text(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        raise _Wrong("use a text of one line")
    return given


def _folder(given: Any) -> str:
    text = _text(given)
    parts = Path(text).parts
    if Path(text).is_absolute() or not parts or any(part.startswith(".") for part in parts):
        raise _Wrong(
            "use a folder below the repository, such as 'requests'; no '..', and no name with a dot first"
        )
    return Path(text).as_posix()


def _branch(given: Any) -> str:
    text = _text(given)
    if problem := branch_problem(text):
        raise _Wrong(f"use the name of a branch, such as 'main': {problem}")
    return text


def _prefix(given: Any) -> str:
    if given == "":
        return ""
    text = _text(given)
    if problem := branch_problem(f"{text}x"):
        raise _Wrong(f"use the start of a branch name, such as 'ai/': {problem}")
    return text


def _remote(given: Any) -> str:
    text = _text(given)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise _Wrong("use the name of a remote, such as 'origin'")
    return text


def _web_url(given: Any) -> str | None:
    if given is None:
        return None
    text = _text(given)
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", text):
        raise _Wrong("use the address of the repository's page, such as 'https://git.example.com/team/app'")
    return text.rstrip("/")


def web_url_in(answer: str) -> str | None:
    """The page of a repository that a person has answered; None if it is not an address."""
    try:
        return _web_url(answer.strip())
    except _Wrong:
        return None


def _argv(given: Any) -> Argv | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise _Wrong(
            'use a list of arguments, such as ["python", "-m", "pytest"]; a shell string is never executed'
        )
    if not isinstance(given, list) or not given or not all(isinstance(part, str) for part in given):
        raise _Wrong('use a list of texts, such as ["python", "-m", "pytest"], or null')
    if not given[0].strip() or any("\0" in part for part in given):
        raise _Wrong("the first argument is the program, and no argument contains a NUL")
    return tuple(given)


def _cli(given: Any) -> Argv | None:
    argv = _argv(given)
    if argv is None:
        return None
    if not any("{prompt}" in part or "{prompt_file}" in part for part in argv[1:]):
        raise _Wrong("one of its arguments must contain {prompt} or {prompt_file}, or the CLI gets no task")
    if PLACEHOLDER.search(argv[0]):
        raise _Wrong("the program itself must not contain a placeholder")
    return argv


def _seconds(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or not 0 < given <= 90 * 86_400:
        raise _Wrong("use a number of seconds above 0, at most 7776000 (90 days)")
    return float(given)


def _count(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= 20:
        raise _Wrong("use a whole number from 0 to 20")
    return given


def _port(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= 65_535:
        raise _Wrong("use a port from 0 to 65535; 0 takes a free one")
    return given


def _variables(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise _Wrong('use a list of names of environment variables, such as ["OPENAI_API_KEY"]')
    for name in given:
        if _VARIABLE.fullmatch(name) is None:
            raise _Wrong(f"{shortened(name)} is not the name of an environment variable")
        if name.startswith(_FORBIDDEN_VARIABLES):
            raise _Wrong(
                f"{name} is not given to a coding CLI: it may hold a secret of the server, or direct git"
            )
    return tuple(given)


def _zone(given: Any) -> ZoneInfo:
    try:
        return ZoneInfo(_text(given))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _Wrong("use the name of a time zone, such as 'Asia/Tokyo' or 'UTC'") from error


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


SETTINGS: Final = (
    Setting(key="paths.requestsDir", field="requests_dir", default="requests", read=_folder,
            variable="AIFLOW_REQUESTS_DIR", help="Folder of the request files."),
    Setting(key="paths.runsDir", field="runs_dir", default="runs", read=_folder,
            variable="AIFLOW_RUNS_DIR", help="Folder of the files of each run."),
    Setting(key="git.baseBranchDefault", field="base_branch", default="main", read=_branch,
            variable="AIFLOW_BASE_BRANCH", help="Base of a request that names none."),
    Setting(key="git.branchPrefix", field="branch_prefix", default="ai/", read=_prefix,
            variable="AIFLOW_BRANCH_PREFIX", help="Start of the branch of a request."),
    Setting(key="git.remoteName", field="remote", default="origin", read=_remote,
            variable="AIFLOW_REMOTE", help="Remote that branches are pushed to."),
    Setting(key="git.repoWebUrl", field="repo_web_url", default=None, read=_web_url,
            variable="AIFLOW_REPO_WEB_URL", help="Page of the repository, for a host that is not known."),
    Setting(key="ai.planner", field="planner", default=None, read=_cli,
            help="Command of the coding CLI that plans; without it the implementer's."),
    Setting(key="ai.implementer", field="implementer", default=None, read=_cli,
            help="Command of the coding CLI that changes the code."),
    Setting(key="ai.qa", field="qa", default=None, read=_cli,
            help="Command of the coding CLI that repairs what the testing phase finds; null: the run fails."),
    Setting(key="ai.fallback", field="fallback", default=None, read=_cli,
            help="Command that is tried when another one has failed twice."),
    Setting(key="ai.model", field="model", default="default", read=_text,
            variable="AIFLOW_MODEL", help="Replaces {model} in the commands."),
    Setting(key="ai.timeoutSec", field="cli_timeout_sec", default=1800, read=_seconds,
            variable="AIFLOW_CLI_TIMEOUT_SEC", from_text=_number,
            help="Time limit of one call of a coding CLI."),
    Setting(key="ai.env", field="cli_env", default=[], read=_variables,
            help="Environment variables that coding CLIs and tests get, besides PATH, HOME and the locale."),
    Setting(key="commands.unitTest", field="unit_test", default=None, read=_argv,
            help="Unit tests; null skips them."),
    Setting(key="commands.e2eTest", field="e2e_test", default=None, read=_argv, help="End-to-end tests."),
    Setting(key="commands.lint", field="lint", default=None, read=_argv, help="Linter."),
    Setting(key="commands.typecheck", field="typecheck", default=None, read=_argv, help="Type checker."),
    Setting(key="runner.planRetries", field="plan_retries", default=2, read=_count,
            help="How often a plan that fails the gate is made again."),
    Setting(key="runner.stepFixRetries", field="step_fix_retries", default=2, read=_count,
            help="How often a step, or a check of the testing phase, is repaired before the run fails."),
    Setting(key="runner.e2eRetries", field="e2e_retries", default=1, read=_count,
            help="How often failed end-to-end tests are repeated."),
    Setting(key="runner.questionTimeoutSec", field="question_timeout_sec", default=30 * 86_400, read=_seconds,
            help="How long a question waits for its answer before the run fails."),
    Setting(key="runner.timeZone", field="time_zone", default="Asia/Tokyo", read=_zone,
            variable="AIFLOW_TIME_ZONE", help="Zone of the times in files and responses."),
    Setting(key="server.host", field="host", default="127.0.0.1", read=_text,
            variable="AIFLOW_HOST", help="Address that the gateway of `pyoco-server agent` listens on."),
    Setting(key="server.port", field="port", default=8000, read=_port,
            variable="AIFLOW_PORT", from_text=_number, help="Its port."),
)  # fmt: skip


def load_settings(
    repo: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AgentSettings:
    """The settings of a repository; `overrides` has values of the command line by key (`server.port`).

    ConfigError for an unknown key, a value of the wrong form, and a file that is not JSON.
    """
    repo = repo.resolve()
    if not repo.is_dir():
        raise ConfigError(f"repo={shortened(str(repo))} is not a folder; give the folder of a git repository")
    file = _file_values(repo / FILE_NAME)
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        source, value = _choose(setting, given, environ, file)
        try:
            values[setting.field] = setting.read(value)
        except _Wrong as wrong:
            raise ConfigError(f"{source}={_shown(value)}: {wrong}") from wrong
    if values["requests_dir"] == values["runs_dir"]:
        raise ConfigError(
            f"paths.runsDir={_shown(values['runs_dir'])}: use another folder than paths.requestsDir"
        )
    return AgentSettings(repo=repo, **values)


def _choose(
    setting: Setting, given: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]
) -> tuple[str, Any]:
    """Where a value comes from, for the error, and the value."""
    if setting.key in given:
        return setting.key, given[setting.key]
    if setting.variable is not None and (text := environ.get(setting.variable)):
        return setting.variable, setting.from_text(text)
    if setting.key in file:
        return f"{FILE_NAME}: {setting.key}", file[setting.key]
    return setting.key, setting.default


def _file_values(path: Path) -> dict[str, Any]:
    """The values of the file by key; empty if there is no file."""
    try:
        found = json.loads(_bounded_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f'{path} must contain one JSON object, such as {{"git": {{...}}}}')
    values = dict(_flat(path, found))
    known = {setting.key for setting in SETTINGS}
    for key in values:
        if key not in known:
            raise ConfigError(
                f"{FILE_NAME}: {key} is not a setting; the settings are: {', '.join(sorted(known))}"
            )
    return values


def _bounded_text(path: Path) -> str:
    """A repository may contain a link to a device here, which never ends."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ConfigError(f"{path} is not a regular file")
    with path.open("rb") as file:
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
    return content.decode()


def _flat(path: Path, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    groups = {setting.key.partition(".")[0] for setting in SETTINGS}
    for group, members in found.items():
        if group == "$schema":
            continue
        if group not in groups:
            raise ConfigError(
                f"{FILE_NAME}: {group} is not a group of settings; use {', '.join(sorted(groups))}"
            )
        if not isinstance(members, dict):
            raise ConfigError(
                f'{path}: {group}={_shown(members)}: use an object, such as {{"{group}": {{...}}}}'
            )
        for name, value in members.items():
            yield f"{group}.{name}", value


def _shown(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
