"""Invalid requests about workers; nothing is changed, since there is no NATS."""

import httpx
import pytest

from tests.support.problems import assert_field_problem, assert_problem


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ("scope=everything", "scope", "active or all"),
        ("scope=", "scope", "active or all"),
        ("state=running", "state", "RUNNING, IDLE"),
        ("state=BUSY", "state", "DISCONNECTED"),
        ("include_hidden=maybe", "include_hidden", "true or false"),
        ("include_hidden=", "include_hidden", "true or false"),
        ("limit=0", "limit", "1 to 500"),
        ("limit=501", "limit", "1 to 500"),
        ("limit=-1", "limit", "1 to 500"),
        ("limit=many", "limit", "1 to 500"),
        ("limit=99999999999999999999", "limit", "1 to 500"),
        ("states=IDLE", "states", "include_hidden, limit, scope, state"),
        ("limit=1&limit=2", "limit", "once"),
    ],
)
async def test_an_invalid_query_is_rejected_by_name(
    http: httpx.AsyncClient, query: str, field: str, says: str
) -> None:
    assert_field_problem(await http.get(f"/workers?{query}"), field, says, number=19)


@pytest.mark.parametrize("worker_id", ["a.b", "*", "%3E", "a%20b", "x" * 129])
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_malformed_worker_id_is_not_found(
    http: httpx.AsyncClient, method: str, worker_id: str
) -> None:
    body = b'{"hidden": true}' if method == "PATCH" else b""
    assert_problem(await http.request(method, f"/workers/{worker_id}", content=body), 404, 20)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (b"", "hidden", "at least one of hidden, paused, drain"),
        (b"{}", "hidden", "at least one of hidden, paused, drain"),
        (b'{"hidden": null}', "hidden", "bool"),
        (b'{"hidden": "yes"}', "hidden", "bool"),
        (b'{"hidden": 1}', "hidden", "bool"),
        (b'{"paused": "true"}', "paused", "bool"),
        (b'{"drain": false}', "drain", "cannot be taken back"),
        (b'{"hidden": true, "visible": false}', "visible", "unknown"),
        (b"[]", "", "object"),
        (b"{", "", "not JSON"),
        (b'{"hidden": true, "x": "' + b"x" * 20_000 + b'"}', "", "larger than"),
    ],
)
async def test_an_invalid_patch_names_the_field(
    http: httpx.AsyncClient, body: bytes, field: str, says: str
) -> None:
    assert_field_problem(await http.patch("/workers/w", content=body), field, says, number=19)


async def test_a_refused_value_is_shown_as_json(http: httpx.AsyncClient) -> None:
    for body in ('{"drain": false}', '{"paused": null}', '{"hidden": "yes"}'):
        [error] = assert_problem(await http.patch("/workers/w", content=body), 422, 19)["errors"]
        assert body == f'{{"{error["field"]}": {error["value"]}}}'
