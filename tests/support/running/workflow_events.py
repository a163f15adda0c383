"""Templates, actions and events of tests, over HTTP."""

from typing import Any

import httpx

from tests.support.running.gateway import RunningGateway

EVENTS = "/api/workflow-events"
TEMPLATES = "/api/workflow-templates"
ACTIONS = "/api/workflow-actions"


def template(
    template_id: str, *, action: str = "close", kind: str = "external_event", **fields: Any
) -> dict[str, Any]:
    """The body of a new template."""
    steps = [{"action": action, "trigger_kind": kind}]
    return {
        "id": template_id,
        "name": f"Template {template_id}",
        "year": 2026,
        "month": 10,
        "steps": steps,
        **fields,
    }


async def save_template(gateway: RunningGateway, template_id: str, **fields: Any) -> dict[str, Any]:
    response = await gateway.http.post(TEMPLATES, json=template(template_id, **fields))
    assert response.status_code == 200, response.text
    saved: dict[str, Any] = response.json()["template"]
    return saved


async def put_action(gateway: RunningGateway, key: str = "close", **fields: Any) -> dict[str, Any]:
    response = await gateway.http.put(f"{ACTIONS}/{key}", json={"flow_name": "noop", **fields})
    assert response.status_code == 200, response.text
    saved: dict[str, Any] = response.json()["action"]
    return saved


async def send(gateway: RunningGateway, **body: Any) -> httpx.Response:
    return await gateway.http.post(EVENTS, json=body)


async def started(gateway: RunningGateway, **body: Any) -> dict[str, Any]:
    response = await send(gateway, **body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def summary(gateway: RunningGateway, ym: str, **query: Any) -> dict[str, Any]:
    response = await gateway.http.get(f"{EVENTS}/summary", params={"ym": ym, **query})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def assert_refused(response: httpx.Response, status: int, number: int, text: str | None = None) -> None:
    """The answer has the ids of this error, and this text alone as its detail."""
    assert response.status_code == status, response.text
    problem = response.json()
    assert (problem["status"], problem["err_id"]) == (status, f"ERR-PYOCO-{number:04d}")
    if text is not None:
        assert problem["detail"] == text
