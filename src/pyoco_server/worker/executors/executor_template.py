"""Starts executor processes as forks of a template, which has imported what every executor needs.

A fork starts in milliseconds, and shares the memory of the template: a new interpreter takes 0.2 s and 20 MB.
The template is a process without threads and without code of users. Where it cannot be used (it has died, or
the system is not Linux), an executor is a new interpreter. The template's side of the protocol is
`worker/child/template_main.py`.
"""

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyoco_server.aio.marked_processes import MARK_VARIABLE
from pyoco_server.config.process_isolation import environment_without_secrets
from pyoco_server.worker.executors.task_processes import TASK_PROCESSES

# In place of the exit code of an executor whose template has died: only the parent of a process learns it.
UNKNOWN_EXIT_CODE = 1000

_MAX_REPLY = 64
# A template that is stopped, by SIGSTOP for example, never replies. The first reply comes after its imports.
_REPLY_SEC = 10.0
_EXIT_SEC = 1.0


class TemplateLost(Exception):
    """The template has died, or could not be started."""


def is_supported() -> bool:
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def _working_folder() -> str | None:
    """None if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


class ForkedProcess:
    """A child of the template: the part of `asyncio.subprocess.Process` that a worker uses."""

    def __init__(self, template: "ExecutorTemplate", pid: int, exit_event: int) -> None:
        """`exit_event` is a pidfd: readable when the process has exited."""
        self.pid = pid
        self.returncode: int | None = None
        self._template = template
        self._exit_event = exit_event

    def has_exited(self) -> bool:
        if self.returncode is not None:
            return True
        # Not select(), which refuses descriptors above 1023.
        exit_event = select.poll()
        exit_event.register(self._exit_event, select.POLLIN)
        return bool(exit_event.poll(0))

    async def wait(self) -> int:
        """Its exit code, or UNKNOWN_EXIT_CODE; to be called once."""
        loop = asyncio.get_running_loop()
        exited = asyncio.Event()
        loop.add_reader(self._exit_event, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(self._exit_event)
        self.returncode = await asyncio.to_thread(self._template.exit_code, self.pid)
        self.abandon()
        return self.returncode

    def abandon(self) -> None:
        """Stop watching for its exit."""
        os.close(self._exit_event)


class ExecutorTemplate:
    """The template process of one worker; started when the first executor is."""

    @classmethod
    def create(cls, *, hidden: bool) -> "ExecutorTemplate | None":
        """None where executors are new interpreters. `hidden` is the setting `hide_process`."""
        return cls(hidden=hidden) if is_supported() else None

    def __init__(self, *, hidden: bool) -> None:
        self._hidden = hidden
        # One request at a time. Held by threads, since forking takes some milliseconds.
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def start_executor(
        self, descriptors: Sequence[int], output: Sequence[int], mark: str
    ) -> ForkedProcess:
        """Fork an executor with these descriptors; TemplateLost if that is not possible."""
        forking = asyncio.ensure_future(asyncio.to_thread(self._fork, [*output, *descriptors], mark))
        try:
            return await asyncio.shield(forking)
        except asyncio.CancelledError:
            # The thread uses the descriptors, which the caller closes; that ends the executor.
            with suppress(TemplateLost):
                (await forking).abandon()
            raise

    def exit_code(self, pid: int) -> int:
        """Of an executor that has exited."""
        with self._lock:
            try:
                code = self._request({"exited": pid})
            except TemplateLost:
                code = None
        return UNKNOWN_EXIT_CODE if code is None else int(code)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _fork(self, descriptors: Sequence[int], mark: str) -> ForkedProcess:
        request = {
            "environment": environment_without_secrets(),
            "folder": _working_folder(),
            "mark": [MARK_VARIABLE, mark],
        }
        with self._lock:
            if self._control is None:
                self._start()
            pid = int(self._request(request, descriptors))
            # Within the lock: the next request may free the id of an executor that has exited.
            return ForkedProcess(self, pid, os.pidfd_open(pid))

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hidden = ["hidden"] if self._hidden else []
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "pyoco_server.worker.child.template_main",
                        str(theirs.fileno()),
                        *hidden,
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    # Each executor replaces the mark by its own, of the same length.
                    env=environment_without_secrets() | {MARK_VARIABLE: TASK_PROCESSES.new_mark()},
                )
            except OSError as error:
                ours.close()
                raise TemplateLost(str(error)) from error
        ours.settimeout(_REPLY_SEC)
        self._control = ours

    def _request(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> Any:
        if self._control is None:
            raise TemplateLost("it has ended")
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            reply = self._control.recv(_MAX_REPLY)
        except OSError as error:
            self._end()
            raise TemplateLost(str(error)) from error
        if not reply:
            self._end()
            raise TemplateLost("it has ended unexpectedly")
        return json.loads(reply)

    def _close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        """Closing the socket ends the template, unless it is stopped; executors of it continue."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_EXIT_SEC)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
