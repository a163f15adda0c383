"""What a shell offers after Tab, asked in the way a shell asks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import call_client
from tests.support.programs import CLIENT, environment
from tests.support.waiting import LIMIT_SEC


def offered(line: str) -> list[str]:
    words = line.split(" ")
    done = call_client(
        _PYOCO_CLIENT_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("pyoco-client ", {"submit", "list", "watch", "dlq"}),
        ("pyoco-client dlq ", {"list", "replay"}),
        ("pyoco-client list --st", {"--status"}),
        ("pyoco-client list --status ", {"PENDING", "COMPLETED"}),
        ("pyoco-client bulk cancel --status R", {"RUNNING"}),
        ("pyoco-client workers --state D", {"DISCONNECTED"}),
        ("pyoco-client list --sort d", {"duration"}),
        ("pyoco-client dlq list --reason exec", {"execution_error"}),
        ("pyoco-client watch --output ", {"json", "status"}),
        ("pyoco-client logs --stream ", {"stdout", "stderr"}),
    ],
)
def test_words_are_completed(line: str, some: set[str]) -> None:
    found = offered(line)
    assert some <= set(found)
    assert all(word.startswith(line.rsplit(" ", maxsplit=1)[-1]) for word in found)


def in_bash(script: str, home: Path) -> str:
    # More than one command, or bash would become the program that asks which shell called it.
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\nexit $?"],
        env=environment(HOME=str(home)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_words_after_the_installation(tmp_path: Path) -> None:
    program = tmp_path / "pyoco-client"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {CLIENT} "$@"\n')
    program.chmod(0o700)
    shown = in_bash(f"{program} --show-completion", tmp_path)
    assert "-F _pyoco_client_completion pyoco-client" in shown
    installed = tmp_path / ".bash_completions" / "pyoco-client.sh"
    assert str(installed) in in_bash(f"{program} --install-completion", tmp_path)
    offered = in_bash(
        f"""source {installed}
        COMP_WORDS=(pyoco-client list --status C) COMP_CWORD=3
        _pyoco_client_completion {program}
        echo "${{COMPREPLY[@]}}" """,
        tmp_path,
    )
    assert offered.split() == ["CANCELLING", "COMPLETED", "CANCELLED"]
