"""Saved views of the list of runs: those of the caller's tenant."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import saved_view_types as types
from pyoco_server.api.endpoints.runs import view_endpoints as endpoints
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.runs.saved_view_models import (
    VIEW_NAME_EXPECTED,
    SavedView,
    ViewFilter,
    is_view_name,
)

_MAX_BYTES = 16 * 1024


@handles(endpoints.LIST_VIEWS)
async def list_views(request: Request) -> Response:
    found = await gateway_of(request).views.all(caller_of(request).tenant_id)
    return json_response(types.ViewList(views=[_shown(view) for view in found]))


@handles(endpoints.GET_VIEW)
async def get_view(request: Request, view_name: str) -> Response:
    return json_response(_shown(await gateway_of(request).views.get(caller_of(request).tenant_id, view_name)))


@handles(endpoints.PUT_VIEW)
async def put_view(request: Request, view_name: str) -> Response:
    body = await limited_body(request, _MAX_BYTES, field="", cure="shorten the texts of its filter")
    asked = json_record(body, types.ViewRequest)
    new_name = view_name if asked.name is UNSET else asked.name
    _check_name("view_name", view_name)
    _check_name("name", new_name)
    _check_statuses(asked.filter.status)
    principal = principal_of(request)
    by = None if principal is None else principal.name
    saved = await gateway_of(request).views.save(
        caller_of(request).tenant_id,
        view_name,
        SavedView(
            name=new_name,
            filter=ViewFilter(**structs.asdict(asked.filter)),
            sort=asked.sort,
            order=asked.order,
            columns=list(dict.fromkeys(asked.columns)),
            revision=0,
            created_at=0.0,
            updated_at=0.0,
            created_by=by,
            updated_by=by,
        ),
        revision=None if asked.revision is UNSET else asked.revision,
    )
    return json_response(_shown(saved))


@handles(endpoints.DELETE_VIEW)
async def delete_view(request: Request, view_name: str) -> Response:
    expected = {"revision": "expected the revision of the view, a whole number"}
    query = query_record(request, types.DeleteViewQuery, expected, InvalidRequest)
    revision = None if query.revision is UNSET else query.revision
    await gateway_of(request).views.delete(caller_of(request).tenant_id, view_name, revision=revision)
    return json_response(types.ViewDeleted(name=view_name))


def _check_name(field: str, name: str) -> None:
    if not is_view_name(name):
        raise InvalidRequest(problems=[FieldProblem(field, VIEW_NAME_EXPECTED, value=shortened(name))])


def _check_statuses(statuses: Sequence[str]) -> None:
    """Records of a later version may have others; a request may not."""
    problems = [
        FieldProblem(
            f"filter.status[{at}]", f"expected one of {', '.join(RunStatus)}", shortened(str(status))
        )
        for at, status in enumerate(statuses)
        if status not in RunStatus.__members__
    ]
    if problems:
        raise InvalidRequest(problems=problems)


def _shown(view: SavedView) -> types.ViewView:
    fields: dict[str, Any] = structs.asdict(view)
    return types.ViewView(**{**fields, "filter": types.ViewFilterView(**structs.asdict(view.filter))})
