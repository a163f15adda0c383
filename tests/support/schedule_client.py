"""A client whose gateway is a dictionary of schedules, for tests of what applies files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import httpx
import msgspec

from pyoco_server.api.schedule_types import ScheduleRequest
from pyoco_server.errors.error_table import Err, ErrorSpec
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.schedules.spec_problems import valid_spec


def refused(error: ErrorSpec) -> PyocoHttpError:
    status = error.status or 500
    content = {"title": error.en, "detail": error.en, "status": status, "err_id": error.err_id}
    headers = {"content-type": "application/problem+json"}
    request = httpx.Request("GET", "http://gateway")
    return PyocoHttpError(httpx.Response(status, json=content, headers=headers, request=request))


class ScheduleClient:
    """Has the methods of PyocoHttpClient that an apply uses; `writes` is what it was asked to change."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        # Called before the next write: what somebody else does meanwhile.
        self.meanwhile: Callable[[], object] | None = None

    @property
    def as_client(self) -> PyocoHttpClient:
        return cast(PyocoHttpClient, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def key(self) -> dict[str, Any]:
        return {"tenant_id": "acme"}

    def iter_schedules(self) -> list[dict[str, Any]]:
        return [*self.stored.values(), {"schedule_id": "of-another-tenant", "tenant_id": "rival"}]

    def get_schedule(self, schedule_id: str) -> dict[str, Any]:
        if schedule_id not in self.stored:
            raise refused(Err.SCHEDULE_NOT_FOUND)
        return dict(self.stored[schedule_id])

    def create_schedule(self, schedule_id: str, flow_name: str, spec: Any, **fields: Any) -> None:
        self._others_write()
        if schedule_id in self.stored:
            raise refused(Err.SCHEDULE_CONFLICT)
        self.writes.append(f"create {schedule_id}")
        given = {"schedule_id": schedule_id, "flow_name": flow_name, "spec": spec, **fields}
        self.put(**given)

    def put(self, **given: Any) -> None:
        """As a gateway stores it."""
        request = msgspec.convert(given, ScheduleRequest)
        fields = msgspec.to_builtins(request)
        spec = msgspec.to_builtins(valid_spec(request.spec))
        defaults = {"tag": request.tag or "default", "tags": request.tags or [], "spec": spec}
        self.stored[request.schedule_id] = {**fields, **defaults, "revision": 1, "tenant_id": "acme"}

    def update_schedule(self, schedule_id: str, *, revision: int, **fields: Any) -> None:
        self._others_write()
        stored = self.stored.get(schedule_id)
        if stored is None:
            raise refused(Err.SCHEDULE_NOT_FOUND)
        if stored["revision"] != revision:
            raise refused(Err.SCHEDULE_CONFLICT)
        self.writes.append(f"update {schedule_id}")
        spec = {**stored["spec"], **fields.pop("spec", {})}
        self.stored[schedule_id] = {**stored, **fields, "spec": spec, "revision": revision + 1}

    def delete_schedule(self, schedule_id: str) -> None:
        self._others_write()
        if self.stored.pop(schedule_id, None) is None:
            raise refused(Err.SCHEDULE_NOT_FOUND)
        self.writes.append(f"delete {schedule_id}")

    def _others_write(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
