"""The flow, tag and worker of recent runs, so that each log line with a `run_id` has them as well."""

from typing import Final

# More than the runs that a process handles at once; the oldest are forgotten.
MAX_RUNS: Final = 2_000

_recent: dict[str, dict[str, str]] = {}


def remember_run(run_id: str, *, flow_name: str, tag: str, worker_id: str | None) -> None:
    fields = {"flow_name": flow_name, "tag": tag}
    if worker_id is not None:
        fields["worker_id"] = worker_id
    # Removed first, so that it becomes the newest.
    _recent.pop(run_id, None)
    _recent[run_id] = fields
    if len(_recent) > MAX_RUNS:
        # Logs are written in any thread, and another one may have removed it.
        _recent.pop(next(iter(_recent)), None)


def fields_of_run(run_id: object) -> dict[str, str]:
    return _recent.get(run_id, {}) if isinstance(run_id, str) else {}
