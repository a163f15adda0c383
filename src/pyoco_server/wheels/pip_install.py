"""Installing one wheel into a folder, with pip as a process of its own that can be ended."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from pathlib import Path
from typing import Final

# -I and --isolated: neither this folder, nor pip's settings, nor variables decide what is installed.
_PIP: Final = ("-I", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "--no-color")
_OPTIONS: Final = ("--no-deps", "--force-reinstall", "--no-index", "--no-cache-dir", "--quiet")
_LAST_BYTES: Final = 2000


class InstallFailed(Exception):
    """The text says why."""


async def pip_install(wheel: Path, target: Path, *, temporary: Path, timeout_sec: float) -> None:
    """Install the wheel, and nothing that it depends on, into the folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *_PIP, "install", *_OPTIONS, "--target", str(target), str(wheel)),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        # On the disk of the target, so that pip moves files where it would copy them.
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_sec):
            output, _ = await process.communicate()
    except TimeoutError:
        raise InstallFailed(
            f"pip took longer than {timeout_sec:g} s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)"
        ) from None
    finally:
        await _end(process)
    if process.returncode != 0:
        said = output[-_LAST_BYTES:].decode("utf-8", "replace").strip()
        raise InstallFailed(f"pip ended with code {process.returncode}: {said}")


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
