"""A gateway that removes one run after the other, and markers at once, and kills itself inside retention.

`python -m tests.faults.dying_retention <moment> <arguments of pyoco-server>`: right after the first write of
that name was acknowledged. With the moment `never` it lives on.
"""

import sys

from pyoco_server.broker.journal import Journal
from pyoco_server.broker.run_logs import RunLogs
from pyoco_server.broker.run_store import RunStore
from pyoco_server.broker.wait_events import WaitEvents
from pyoco_server.broker.wait_store import WaitStore
from pyoco_server.cli.server import main
from pyoco_server.runs import retention
from pyoco_server.runs.retention import Retention
from tests.support.dying_gateway import dying

# The writes of retention: about a run that is removed, then about the markers of all that were.
MOMENTS: dict[str, tuple[type, str]] = {
    "key": (RunStore, "delete"),
    "journal": (Journal, "remove"),
    "logs": (RunLogs, "remove"),
    "waits": (WaitStore, "remove_run"),
    "events": (WaitEvents, "remove_run"),
    "wait markers": (WaitStore, "purge_run"),
    "run marker": (Retention, "_remove_marker"),
}
ABOUT_MARKERS = ("wait markers", "run marker")
NEVER = "never"


def _remove_markers_at_once() -> None:
    defaults = Retention.__init__.__kwdefaults__
    assert defaults is not None
    defaults["marker_sec"] = 0.0


if __name__ == "__main__":
    moment = sys.argv.pop(1)
    _remove_markers_at_once()
    # Those behind the one at which it dies are not touched yet.
    retention._AT_ONCE = 1
    if moment != NEVER:
        owner, name = MOMENTS[moment]
        setattr(owner, name, dying(getattr(owner, name), behind=1))
    main()
