"""Schedules that once broke an invariant: they are played in each run of the tests.

A seed stands for its schedule only as long as its scenario and the simulation do not change; the fix that it
has led to is also in the table of `fixes.py`, where the search finds it again.
"""

from typing import Final

# By scenario: the seeds, and what was broken.
FOUND: Final = {
    "lost_tail": {
        139: "a parked run waited for a wait that NATS had lost",
        66: "a refused submit was executed, because NATS had lost its withdrawal",
        900174: "a parked run was checked before its gateway knew that NATS had lost its wait, and not again",
        50009: "a run stayed RUNNING, because its acknowledged job was stored again and counted as queued",
    },
    "retry": {253: "a retry was answered with 503, although the run had waited and failed again"},
}
