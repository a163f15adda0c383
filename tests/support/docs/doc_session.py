"""A page of the documentation followed literally, in an empty folder.

Files are written, commands run in one shell environment, and `pyoco-server` and `pyoco-worker` serve in the
background, as in another terminal. Only the ports differ from the page. Where it shows a sample of what a
command has printed (the id of a run or a wait, a digest, a key), the last one that was printed is used, as a
reader would copy it.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pyoco_server.http_client import PyocoHttpClient
from tests.support.docs.code_blocks import CodeBlock
from tests.support.forks.fork_server import stand_ins
from tests.support.places import ROOT
from tests.support.ports import port_to_keep
from tests.support.programs import Program, environment, started
from tests.support.waiting import LIMIT_SEC, eventually_sync

_SERVER: Final = re.compile(
    r"^((?:[A-Z_]+=\S+ +)*)(pyoco-server (?:up|dev|agent)|pyoco-worker)\b(.*)$", re.MULTILINE
)
_READY: Final = {
    "pyoco-server up": "gateway ready at",
    "pyoco-server dev": "Press Ctrl-C to stop everything",
    "pyoco-server agent": "Press Ctrl-C to stop everything",
    "pyoco-worker": "ready",
}
# They start NATS, and wait for their runs at the first Ctrl-C.
_STACKS: Final = ("pyoco-server dev", "pyoco-server agent")
_ABOUT_QUESTIONS: Final = re.compile(r"pyoco-client (resume|waits)|/resume|/waits|iter_waits")
# The shapes of what a reader copies.
_SAMPLES: Final = [
    re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-f]{16}\b"),
    re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b(?!\.)"),
    re.compile(r"\bpyoco_[0-9a-f]{16}_[0-9a-f]{64}\b"),
    re.compile(r"(?<![0-9a-f_.-])[0-9a-f]{64}\b"),
    re.compile(r"(?<![0-9a-f_.-])[0-9a-f]{16}\b"),
]


class DocSession:
    def __init__(self, folder: Path, stack: ExitStack, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._stack = stack
        self._servers: dict[str, Program] = {}
        self._printed = ""
        self._gateway, self._nats = port_to_keep(), port_to_keep()
        self._variables = folder.parent / f"{folder.name}.variables"
        self._variables.write_text("")
        # The clone, beside the folder of the reader.
        (folder.parent / "pyoco-server").symlink_to(ROOT)
        # An HTTP error is a failed command.
        (folder.parent / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")

    def follow(self, block: CodeBlock) -> None:
        match block.language:
            case "python" if block.file_name is None:
                self._run(shlex.join([sys.executable, "-c", block.text]), block)
            case "python" | "yaml":
                self._write(block)
            case "console":
                commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
                self._run("\n".join(commands), block)
            case "sh":
                server = _SERVER.search(block.text)
                self._run(block.text, block) if server is None else self._serve(block, server)
            case other:
                raise AssertionError(f"{block.place}: nothing is known about blocks of {other!r}")

    def stop(self) -> None:
        for name, program in self._servers.items():
            _quit(name, program)

    def _write(self, block: CodeBlock) -> None:
        assert block.file_name is not None
        file = self.folder / block.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._local(block.text))

    def _run(self, script: str, block: CodeBlock) -> None:
        if _ABOUT_QUESTIONS.search(script) and "submit" not in script:
            self._wait_for_question()
        done = subprocess.run(
            ["bash", "-c", self._with_variables(self._local(script), keep=True)],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SEC,
            check=False,
        )
        self._printed += done.stdout + done.stderr
        assert done.returncode == block.exit_code, (
            f"{block.place} ended with {done.returncode}:\n{block.text}\n{done.stdout}{done.stderr}"
        )

    def _wait_for_question(self) -> None:
        """A reader is slower than the run that asks."""
        with PyocoHttpClient(f"http://127.0.0.1:{self._gateway}") as client:

            def asks() -> bool:
                failed = client.list_runs_vnext(limit=1, status=["FAILED"])["items"]
                assert not failed, failed
                return bool(client.waits(1)["items"])

            eventually_sync(asks, describe="a run asks")

    def _serve(self, block: CodeBlock, server: re.Match[str]) -> None:
        """Start it, or start it again after two Ctrl-C; the rest of the block comes before it."""
        settings, program, options = server.groups()
        if (before := self._servers.pop(program, None)) is not None:
            _quit(program, before)
        ports = f" --port {self._gateway}" if program != "pyoco-worker" else ""
        ports += f" --nats-port {self._nats}" if program in _STACKS else ""
        script = f"{block.text[: server.start()]}{settings}exec {program}{options.partition('#')[0]}{ports}"
        process = self._stack.enter_context(
            started(
                ["bash", "-c", self._with_variables(self._local(script))], cwd=self.folder, **self._settings()
            )
        )
        process.writes(_READY[program])
        self._servers[program] = process
        # Its exports are those of this terminal too.
        if exports := block.text[: server.start()]:
            self._run(exports, block)

    def _local(self, text: str) -> str:
        """The text with the ports of this session, and what was printed in place of samples."""
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{self._gateway}")
        for sample in _SAMPLES:
            if printed := sample.findall(self._printed):
                text = sample.sub(printed[-1], text)
        return text

    def _with_variables(self, script: str, *, keep: bool = False) -> str:
        file = shlex.quote(str(self._variables))
        names = "^declare -x (PWD|OLDPWD|SHLVL|_)="
        kept = f"\nexport -p | grep -Ev {shlex.quote(names)} > {file}" if keep else ""
        return f"set -ea -o pipefail; . {file}\n{script}{kept}"

    def _settings(self) -> dict[str, str]:
        return {
            "PATH": os.pathsep.join(
                map(str, (self._programs, Path(sys.executable).parent, os.environ["PATH"]))
            ),
            "HOME": str(self.folder.parent),
            "PYOCO_SERVER": f"http://127.0.0.1:{self._gateway}",
            "PYOCO_NATS_URL": f"nats://127.0.0.1:{self._nats}",
            "PYOCO_INDEX_DIR": str(self.folder.parent / "index"),
        }

    def _environment(self) -> dict[str, str]:
        return environment(**self._settings())


def _quit(name: str, program: Program) -> None:
    """Ctrl-C, and once more where it would wait for its runs."""
    program.send(signal.SIGINT)
    if name in _STACKS:
        program.writes("Press Ctrl-C again to quit now")
        program.send(signal.SIGINT)
    program.end()


@contextmanager
def doc_session(folder: Path, *, as_installed: bool = False) -> Iterator[DocSession]:
    """Our programs are forks of a preloaded process (stand_in.py), or those that were installed."""
    folder.mkdir()
    programs = Path(sys.executable).parent if as_installed else stand_ins()
    with ExitStack() as stack:
        session = DocSession(folder, stack, programs)
        yield session
        session.stop()
