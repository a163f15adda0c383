"""All endpoints, by name and in the order of routing: what is called most comes first."""

from typing import Final

from pyoco_server.api.endpoints import system_endpoints
from pyoco_server.api.endpoints.agent import request_endpoints
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.monitoring import alert_endpoints, audit_endpoints
from pyoco_server.api.endpoints.runs import bulk_endpoints, dlq_endpoints, run_endpoints, view_endpoints
from pyoco_server.api.endpoints.schedules import schedule_endpoints
from pyoco_server.api.endpoints.triggers import hook_endpoints, workflow_event_endpoints
from pyoco_server.api.endpoints.waits import signal_endpoints, wait_endpoints
from pyoco_server.api.endpoints.workers import flow_endpoints, wheel_endpoints, worker_endpoints

_AREAS: Final = (
    run_endpoints,
    hook_endpoints,
    wait_endpoints,
    schedule_endpoints,
    signal_endpoints,
    workflow_event_endpoints,
    request_endpoints,
    dlq_endpoints,
    bulk_endpoints,
    worker_endpoints,
    flow_endpoints,
    wheel_endpoints,
    view_endpoints,
    alert_endpoints,
    audit_endpoints,
    system_endpoints,
)
ENDPOINT_BY_NAME: Final = {
    name: value for area in _AREAS for name, value in vars(area).items() if isinstance(value, Endpoint)
}
ENDPOINTS: Final = tuple(ENDPOINT_BY_NAME.values())
