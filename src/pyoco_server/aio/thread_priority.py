"""The priority of threads that compute in the background."""

import os
import sys
import threading
from typing import Final

# A third of the weight of a normal thread: the event loop and NATS get a core at once, and an index still
# advances beside tasks that use every core.
_NICER: Final = 5
_NICEST: Final = 19


def lower_thread_priority() -> None:
    """Have the kernel prefer other threads to this one: the initializer of a ThreadPoolExecutor.

    A transaction of an index computes for milliseconds. With two of them on two cores, a request waits for
    as long until the event loop, or NATS, has a core.
    """
    # On other systems a priority is that of the whole process.
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(
            os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + _NICER, _NICEST)
        )
