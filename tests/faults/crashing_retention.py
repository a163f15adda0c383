"""A gateway that removes one run after the other, and markers at once, and kills itself inside retention.

`python -m tests.faults.crashing_retention <crash point> <arguments of pyoco-server>`: right after the first
write of that name was acknowledged. With the crash point `never` it keeps running.
"""

import sys

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.cli.server.server_command import main
from pyoco_server.runs.sweep import retention
from pyoco_server.runs.sweep.retention import Retention
from tests.support.running.crashing_gateway import CrashPoint

# The writes of retention: about a run that is removed, then about the markers of all that were.
CRASH_POINTS: dict[str, CrashPoint] = {
    "key": CrashPoint(RunStore, "delete"),
    "journal": CrashPoint(Journal, "remove"),
    "objects": CrashPoint(RunObjects, "remove_run"),
    "logs": CrashPoint(RunLogs, "remove"),
    "waits": CrashPoint(WaitStore, "remove_run"),
    "events": CrashPoint(WaitEventLog, "remove_run"),
    "wait markers": CrashPoint(WaitStore, "purge_run"),
    "run marker": CrashPoint(Retention, "_remove_marker"),
}
ABOUT_MARKERS = ("wait markers", "run marker")
NEVER = "never"


def _remove_markers_at_once() -> None:
    defaults = Retention.__init__.__kwdefaults__
    assert defaults is not None
    defaults["marker_sec"] = 0.0


if __name__ == "__main__":
    crash_point = sys.argv.pop(1)
    _remove_markers_at_once()
    # Those behind the one at which it dies are not touched yet.
    retention._AT_ONCE = 1
    if crash_point != NEVER:
        CRASH_POINTS[crash_point].die(at=1)
    main()
