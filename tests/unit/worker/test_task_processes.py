"""Marks of executors."""

import os

import pytest

from pyoco_server.worker.executors import task_processes
from pyoco_server.worker.executors.task_processes import TaskProcesses


def test_a_forked_worker_has_marks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The guard of one would kill the executors of the other.
    guards: list[str] = []
    monkeypatch.setattr(TaskProcesses, "_start_guard", lambda self: guards.append(self._mark))
    processes = TaskProcesses()
    mine = [processes.new_mark() for _ in range(2)]
    parent = os.getpid()
    monkeypatch.setattr(task_processes.os, "getpid", lambda: parent + 1)
    forked = processes.new_mark()
    assert len({*mine, forked}) == 3
    assert [mark.partition("-")[0] for mark in (*mine, forked)] == [guards[0], guards[0], guards[1]]
    assert guards[0] != guards[1]
