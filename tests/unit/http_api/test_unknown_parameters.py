"""Parameters that an endpoint does not have are refused; only the query of a list is called one."""

import re

import httpx
import pytest

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.errors.error_table import Err

RUN_ID = "0190c1de-0000-7000-8000-000000000000"
GETS = [each for each in ENDPOINTS if each.method == "GET"]
OF_ONE_RUN = [each for each in GETS if each.query and each.path.startswith("/runs/{run_id}")]
WITHOUT_QUERY = [each for each in GETS if each.query is None]
# Clients add parameters of their own, or the contract does not refuse them.
TOLERANT = {
    "/metrics",
    "/openapi.json",
    "/",
    "/docs",
    "/static/{path:path}",
    "/api/workflow-templates/{template_id}",
    "/api/workflow-actions",
    "/api/workflow-actions/{key}",
    "/api/v1/requests/{request_id}",
    "/api/v1/requests/{request_id}/runs/latest",
    "/api/v1/requests/{request_id}/runs",
    "/api/v1/requests/{request_id}/raw",
    "/api/v1/requests/{request_id}/runs/{run_number}/artifacts/{name}",
    "/api/v1/ws/requests/{request_id}/runs/{run_number}",
    "/ws/requests/{request_id}/runs/{run_number}",
}
REFUSING = [each for each in WITHOUT_QUERY if each.path not in TOLERANT]


def path_of(endpoint: Endpoint) -> str:
    return re.sub(r"\{.*?\}", "x", endpoint.path.replace("{run_id}", RUN_ID))


def of_path(endpoint: Endpoint) -> str:
    return endpoint.path


@pytest.mark.parametrize("endpoint", [*OF_ONE_RUN, *REFUSING], ids=of_path)
async def test_unknown_parameters_are_refused(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    response = await http.get(path_of(endpoint), params={"inclde": "records"})
    problem = response.json()
    assert (response.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    [refused] = problem["errors"]
    assert refused["field"] == "inclde"
    known = ", ".join(sorted(endpoint.query.__struct_fields__)) if endpoint.query else ""
    expected = f"expected one of {known}" if known else "expected none"
    assert refused["message"] == f"unknown parameter; {expected}"


@pytest.mark.parametrize("endpoint", [each for each in WITHOUT_QUERY if each.path in TOLERANT], ids=of_path)
async def test_other_parameters_are_ignored_where_clients_may_add_them(
    http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    plain = await http.get(path_of(endpoint))
    assert (await http.get(path_of(endpoint), params={"v": "7"})).status_code == plain.status_code


def test_every_get_without_parameters_either_refuses_or_tolerates_them() -> None:
    assert {each.path for each in WITHOUT_QUERY if not each.refuses_query} == TOLERANT
    assert not any(each.any_query and each.query for each in ENDPOINTS)


@pytest.mark.parametrize("endpoint", REFUSING, ids=of_path)
def test_the_refusal_is_documented(endpoint: Endpoint) -> None:
    assert Err.INVALID_REQUEST in endpoint.errors


async def test_the_parameters_of_a_run_are_given_once(http: httpx.AsyncClient) -> None:
    response = await http.get(f"/runs/{RUN_ID}/watch?since=1&since=2")
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == ["since"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/overview", "The request is not valid"),
        ("/statistics", "The request is not valid"),
        ("/flows/nightly", "The request is not valid"),
        ("/runs", "The list query is not valid"),
        ("/flows", "The list query is not valid"),
    ],
)
async def test_only_the_query_of_a_list_is_called_one(http: httpx.AsyncClient, path: str, text: str) -> None:
    response = await http.get(path, params={"windw": "1h"})
    assert (response.status_code, response.json()["title"]) == (422, text)


async def test_the_query_of_a_submission_is_no_list(http: httpx.AsyncClient) -> None:
    response = await http.post("/runs?stict=true", json={"flow_name": "noop"})
    assert (response.status_code, response.json()["title"]) == (422, "The request is not valid")


async def test_probes_may_add_parameters_of_their_own(http: httpx.AsyncClient) -> None:
    assert (await http.get("/health", params={"probe": "7"})).status_code == 200
