"""Threads that compute in the background let the kernel prefer others."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyoco_server.aio import thread_priority
from pyoco_server.aio.thread_priority import lower_thread_priority

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a priority is that of the whole process"
)


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_that_thread_gets_a_lower_priority() -> None:
    before = _priority()
    with (
        ThreadPoolExecutor(1, initializer=lower_thread_priority) as background,
        ThreadPoolExecutor(1) as other,
    ):
        expected = min(before + thread_priority._NICER, thread_priority._NICEST)
        assert background.submit(_priority).result() == expected
        assert other.submit(_priority).result() == before
    assert _priority() == before


def test_a_program_that_has_the_lowest_priority_keeps_it() -> None:
    def lowest() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), thread_priority._NICEST)
        lower_thread_priority()
        return _priority()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lowest).result() == thread_priority._NICEST
