"""Parameters that an endpoint does not have are refused; only the query of a list is called one."""

import re

import httpx
import pytest

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS

RUN_ID = "0190c1de-0000-7000-8000-000000000000"
OF_ONE_RUN = [each for each in ENDPOINTS if each.route.startswith("GET /runs/{run_id}")]


def path_of(endpoint: Endpoint) -> str:
    return re.sub(r"\{.*?\}", "x", endpoint.path.replace("{run_id}", RUN_ID))


@pytest.mark.parametrize("endpoint", OF_ONE_RUN, ids=lambda each: each.path)
async def test_a_run_and_its_parts_refuse_unknown_parameters(
    http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    response = await http.get(path_of(endpoint), params={"inclde": "records"})
    problem = response.json()
    assert (response.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    [refused] = problem["errors"]
    assert refused["field"] == "inclde"
    known = ", ".join(sorted(endpoint.query.__struct_fields__)) if endpoint.query else ""
    expected = f"expected one of {known}" if known else "expected none"
    assert refused["message"] == f"unknown parameter; {expected}"


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
