"""The client library: everything a program can ask the gateway, as plain method calls.

    with PyocoHttpClient("http://127.0.0.1:8000") as client:
        run = client.submit_run("greet", params={"name": "Ada"})
        print(client.wait(run["run_id"])["status"])

An answer of 4xx or 5xx raises PyocoHttpError, a gateway that does not answer raises GatewayUnreachable. An
address, API key or idempotency key that cannot be sent at all is a ValueError.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import quote

from .event_stream import ServerSentEvent
from .gateway_http import GatewayHttp, GatewayUnreachable, PyocoHttpError, sendable
from .models import TERMINAL

__all__ = ["GatewayUnreachable", "PyocoHttpClient", "PyocoHttpError"]

_FIRST_POLL_SEC: Final = 0.05
_SLOWEST_POLL_SEC: Final = 1.0
# A gateway that restarts, or loses NATS for a moment, does not end a wait: the run goes on without it.
_OUTAGE_PATIENCE_SEC: Final = 30.0


class LogFilter(TypedDict, total=False):
    """Which lines of a log are wanted; what is not given wants all of them."""

    task: Sequence[str]
    stream: Sequence[str]
    search: str | None


class PyocoHttpClient(GatewayHttp):
    """A connection to one gateway. Close it when done, or use it in a `with` statement."""

    def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Sequence[str] | None = None,
        *,
        timeout_sec: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Submit a run of a flow that the workers know: its `run_id` and `status`.

        `timeout_sec` limits the run. With an `idempotency_key` the same call may be made again after any
        failure, and there is one run all the same.
        """
        body = _given(flow_name=flow_name, params=params, tag=tag, tags=tags, timeout_sec=timeout_sec)
        return self._json("POST", "/runs", json=body, headers=_key_header(idempotency_key))

    def submit_run_yaml(
        self,
        workflow_yaml: str | bytes,
        flow_name: str,
        tag: str | None = None,
        *,
        timeout_sec: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Submit the text of a flow.yaml as a run of the given name; the rest is as in `submit_run`."""
        content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
        return self._json(
            "POST",
            "/runs/yaml",
            data=_given(flow_name=flow_name, tag=tag, timeout_sec=timeout_sec),
            files={"workflow": ("flow.yaml", content)},
            headers=_key_header(idempotency_key),
        )

    def rerun(self, run_id: str, mode: str = "start", task: str | None = None) -> dict[str, Any]:
        """Repeat a run that has ended, as a new run: its `run_id`, `status` and `origin_run_id`.

        The mode `failed` goes on from what failed, `task` from the named task: what finished before is not
        executed again.
        """
        body = _given(mode=mode, task=task)
        return self._json("POST", f"/runs/{quote(run_id, safe='')}/rerun", json=body)

    def get_run(self, run_id: str, include: Sequence[str] = ()) -> dict[str, Any]:
        """The newest snapshot of a run; `include=["records"]` adds its task records."""
        query = {"include": list(include)} if include else None
        return self._json("GET", f"/runs/{quote(run_id, safe='')}", params=query)

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        """The states and the records of a run's tasks."""
        return self._json("GET", f"/runs/{quote(run_id, safe='')}/tasks")

    def get_logs(
        self,
        run_id: str,
        *,
        task: Sequence[str] = (),
        stream: Sequence[str] = (),
        search: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """A page of what a run printed; its `next_after` is the `after` of the next page."""
        query = _given(task=task, stream=stream, search=search, after=after, limit=limit)
        return self._json("GET", _logs_path(run_id), params=query)

    def iter_logs(
        self, run_id: str, *, after: str | None = None, **wanted: Unpack[LogFilter]
    ) -> Iterator[dict[str, Any]]:
        """Each line that a run has printed by now, page after page."""
        while True:
            page = self.get_logs(run_id, after=after, **wanted)
            yield from page["lines"]
            if page["complete"] or page["next_after"] == after:
                return
            after = page["next_after"]

    def follow_logs(
        self, run_id: str, *, after: str | None = None, **wanted: Unpack[LogFilter]
    ) -> Generator[dict[str, Any], None, str | None]:
        """Each line as the run prints it, to the run's end; the generator returns its status then.

        A gateway that goes away for a moment is waited for, and no line is lost or told twice.
        """
        answered, pause = time.monotonic(), _FIRST_POLL_SEC
        while True:
            try:
                for event in self._events(_logs_path(run_id), _given(**wanted), after):
                    pause = _FIRST_POLL_SEC
                    if event.name == "end":
                        return _status_in(event)
                    if event.name == "line":
                        yield json.loads(event.data)
                        after = event.id
                answered = time.monotonic()
            except (GatewayUnreachable, PyocoHttpError) as error:
                if not _passes(error) or time.monotonic() - answered > _OUTAGE_PATIENCE_SEC:
                    raise
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL_SEC)

    def cancel_run(self, run_id: str, reason: str | None = None) -> dict[str, Any]:
        """Ask a run to stop: its snapshot, CANCELLING unless it has ended already."""
        body = {} if reason is None else {"reason": reason}
        return self._json("POST", f"/runs/{quote(run_id, safe='')}/cancel", json=body)

    def health(self) -> dict[str, Any]:
        """How the gateway and its connection to NATS are."""
        return self._json("GET", "/health")

    def wait(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The snapshot of a run that has ended; TimeoutError when it has not in `timeout_sec`."""
        snapshot: dict[str, Any] = {}
        for snapshot in self.follow(run_id, timeout_sec):  # noqa: B007 - the last one is what counts
            pass
        return snapshot

    def follow(self, run_id: str, timeout_sec: float | None = None) -> Iterator[dict[str, Any]]:
        """Each new snapshot of a run as it is seen, the one of its end last; TimeoutError as in `wait`."""
        started = time.monotonic()
        deadline = None if timeout_sec is None else started + timeout_sec
        answered = started
        pause = _FIRST_POLL_SEC
        newest: dict[str, Any] = {}
        while True:
            try:
                snapshot = self.get_run(run_id)
                answered = time.monotonic()
            except (GatewayUnreachable, PyocoHttpError) as error:
                if not _passes(error) or time.monotonic() - answered > _OUTAGE_PATIENCE_SEC:
                    raise
                snapshot = newest
            if _changed(snapshot, newest):
                newest, pause = snapshot, _FIRST_POLL_SEC
                yield snapshot
            if newest.get("status") in TERMINAL:
                return
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(_not_ended(run_id, newest, timeout_sec))
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL_SEC)


def _passes(error: GatewayUnreachable | PyocoHttpError) -> bool:
    """Whether the same question may be answered a moment later."""
    return not isinstance(error, PyocoHttpError) or error.status == HTTPStatus.SERVICE_UNAVAILABLE


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _key_header(idempotency_key: str | None) -> dict[str, str]:
    if idempotency_key is None:
        return {}
    return {"Idempotency-Key": sendable(idempotency_key, "idempotency key")}


def _logs_path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}/logs"


def _status_in(event: ServerSentEvent) -> str | None:
    status: str | None = json.loads(event.data)["status"]
    return status


def _changed(snapshot: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    watched = ("status", "tasks", "attempt", "worker_id")
    return any(snapshot.get(name) != earlier.get(name) for name in watched)


def _not_ended(run_id: str, newest: Mapping[str, Any], timeout_sec: float | None) -> str:
    return f"run {run_id} is still {newest.get('status', 'unknown')} after {timeout_sec:g} s; it goes on"
