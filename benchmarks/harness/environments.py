"""The installation of a peer: its virtual environment from PyPI, and server programs from Debian."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ENVIRONMENTS = ROOT / ".pyoco" / "bench"
_INSTALLED = "installed.json"
_INSTALL_LIMIT_SEC = 600


class NotMeasured(Exception):
    """Why a figure is missing, for the table."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment that is made when it is first needed, and again when its packages change."""

    name: str
    packages: tuple[str, ...]
    at_least: tuple[int, int] = (3, 11)  # the Python it needs, where this machine has one

    def program(self, name: str) -> str:
        return str(_ENVIRONMENTS / self.name / "bin" / name)

    @property
    def python(self) -> str:
        return self.program("python")

    def prepare(self) -> dict[str, str]:
        """Have it installed; return the version of everything in it."""
        record = _ENVIRONMENTS / self.name / _INSTALLED
        if not record.exists() or json.loads(record.read_text())["packages"] != list(self.packages):
            self._install()
            record.write_text(json.dumps({"packages": self.packages, "versions": self._versions()}))
        versions: dict[str, str] = json.loads(record.read_text())["versions"]
        return versions

    def _install(self) -> None:
        print(f"Installing {', '.join(self.packages)} for the benchmark ...", file=sys.stderr)
        folder = _ENVIRONMENTS / self.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        run_quietly(
            [_interpreter(self.at_least), "-m", "venv", "--clear", str(folder)], "cannot make an environment"
        )
        run_quietly([self.python, "-m", "pip", "install", "--quiet", *self.packages], "pip install failed")

    def _versions(self) -> dict[str, str]:
        listed = run_quietly([self.python, "-m", "pip", "list", "--format=json"], "pip list failed")
        python = run_quietly(
            [self.python, "-c", "import platform; print(platform.python_version())"], "no Python"
        )
        return {"Python": python.strip()} | {found["name"]: found["version"] for found in json.loads(listed)}


def _interpreter(at_least: tuple[int, int]) -> str:
    """Our own Python, or a newer one from the path or from pyenv. Our own again when there is none."""
    if sys.version_info >= at_least:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(at_least[1], 20)]
    on_path = [found for name in names if (found := shutil.which(name))]
    of_pyenv = [str(found) for name in names for found in Path.home().glob(f".pyenv/versions/*/bin/{name}")]
    for candidate in [*on_path, *of_pyenv]:
        # A shim of pyenv is on the path even when the version behind it is not switched on.
        if subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return candidate
    return sys.executable


def server_program(program: str, package: str) -> str:
    """Where a server program is. As root on Debian it is installed when it is missing."""
    if found := _find(program):
        return found
    cure = f"apt-get install {package}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotMeasured(f"{program} is not installed; `{cure}` brings it")
    print(f"Installing {package} for the benchmark ...", file=sys.stderr)
    run_quietly(
        ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package], f"`{cure}` failed"
    )
    if found := _find(program):
        return found
    raise NotMeasured(f"`{cure}` has brought no {program}")


def server_version(program: str, package: str) -> dict[str, str]:
    """Install the program; return the version that it prints."""
    said = run_quietly([server_program(program, package), "--version"], f"{program} --version failed")
    found = re.search(r"\d+(\.\d+)+", said)
    return {program: found.group() if found else said.strip()}


def _find(program: str) -> str | None:
    if on_path := shutil.which(program):
        return on_path
    # Debian keeps PostgreSQL's programs off the path, one folder for each version.
    return max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")), default=None)


def run_quietly(command: list[str], what_failed: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_LIMIT_SEC,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"{what_failed}: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise NotMeasured(f"{what_failed}: {reason}")
    return done.stdout
