"""All endpoints, by name and in the order of routing: what is called most comes first."""

from typing import Final

from pyoco_server.api.endpoints import (
    alert_endpoints,
    audit_endpoints,
    bulk_endpoints,
    dlq_endpoints,
    flow_endpoints,
    hook_endpoints,
    request_endpoints,
    run_endpoints,
    schedule_endpoints,
    signal_endpoints,
    statistics_endpoints,
    system_endpoints,
    view_endpoints,
    wait_endpoints,
    wheel_endpoints,
    worker_endpoints,
    workflow_event_endpoints,
)
from pyoco_server.api.endpoints.endpoint import Endpoint

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
    statistics_endpoints,
    alert_endpoints,
    audit_endpoints,
    system_endpoints,
)
ENDPOINT_BY_NAME: Final = {
    name: value for area in _AREAS for name, value in vars(area).items() if isinstance(value, Endpoint)
}
ENDPOINTS: Final = tuple(ENDPOINT_BY_NAME.values())
