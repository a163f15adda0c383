"""Query strings: which parameters may be repeated."""

import pytest
from starlette.requests import Request

from pyoco_server.api.run_types import RunListQuery
from pyoco_server.api.wait_types import WaitListQuery
from pyoco_server.errors import InvalidListQuery
from pyoco_server.http_api.requests.query import QueryReader


def a_request(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode()})


def test_a_list_may_be_repeated() -> None:
    waits = QueryReader(a_request("kind=sleep&kind=signal,event&state=open&state=expired"), WaitListQuery)
    assert waits.each("kind", str) == ["sleep", "signal", "event"]
    waits.check()
    QueryReader(a_request("status=FAILED&status=RUNNING&include=full"), RunListQuery).check()


@pytest.mark.parametrize("name", ["flow", "limit", "run_id"])
def test_a_single_value_may_not(name: str) -> None:
    with pytest.raises(InvalidListQuery) as refused:
        QueryReader(a_request(f"{name}=1&{name}=2"), WaitListQuery).check()
    assert [problem.field for problem in refused.value.problems] == [name]
