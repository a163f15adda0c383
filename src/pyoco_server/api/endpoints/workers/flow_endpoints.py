"""Endpoints of flows."""

from pyoco_server.api import flow_types as flows
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_errors import INDEX_READ_ERRORS, LIST_ERRORS, RUN_ERRORS
from pyoco_server.api.endpoints.endpoint_scopes import READ
from pyoco_server.errors.error_table import Err

LIST_FLOWS = Endpoint(
    "GET /flows",
    READ,
    "The flows of live workers, and those that have runs, in the order of their names.",
    flows.FlowPage,
    LIST_ERRORS,
    query=flows.FlowListQuery,
)
GET_FLOW = Endpoint(
    "GET /flows/{flow_name}",
    READ,
    "One flow: its parameters, tasks and graph, who has it, and how its runs ended.",
    flows.FlowView,
    (Err.FLOW_NOT_FOUND, *INDEX_READ_ERRORS),
    query=flows.FlowQuery,
    with_slashes="flow_name",
)
GET_RUN_GRAPH = Endpoint(
    "GET /runs/{run_id}/graph",
    READ,
    "The tasks of a run and the order between them, also before it has started.",
    flows.RunGraph,
    RUN_ERRORS,
)
