"""Rate limits per caller."""

import httpx
import pytest

from pyoco_server.http_api.middleware import rate_limits
from pyoco_server.http_api.middleware.rate_limits import TokenBuckets
from tests.support.clocks import Clock
from tests.support.offline_gateway import offline_gateway


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def test_a_burst_is_free_and_then_the_rate_holds(clock: Clock) -> None:
    buckets = TokenBuckets(per_sec=2, burst=3, clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now += 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") == 0.5
    clock.now += 1000
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_rejected_requests_take_no_tokens(clock: Clock) -> None:
    buckets = TokenBuckets(per_sec=1, burst=1, clock=clock)
    buckets.take("a")
    for _ in range(5):
        clock.now += 0.125
        assert buckets.take("a") > 0
    clock.now += 0.375
    assert buckets.take("a") == 0


def test_each_caller_has_a_share_of_its_own(clock: Clock) -> None:
    buckets = TokenBuckets(per_sec=1, burst=1, clock=clock)
    assert [buckets.take(name) for name in ("a", "b", "a", "b")] == [0, 0, 1, 1]


def test_no_number_of_callers_takes_more_than_so_much_memory(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "_MAX_CALLERS", 3)
    buckets = TokenBuckets(per_sec=1, burst=1, clock=clock)
    for number in range(100):
        clock.now += 0.01
        buckets.take("busy")
        buckets.take(str(number))
    assert len(buckets._buckets) == 3
    assert buckets.take("busy") > 0, "who was just here is not forgotten"


async def test_too_many_requests_are_429_with_the_time_to_wait() -> None:
    http = offline_gateway(http_rate_limit=0.1, http_rate_limit_burst=3)
    responses = [await http.get("/nowhere") for _ in range(4)]
    assert [response.status_code for response in responses] == [404, 404, 404, 429]
    rejected = responses[-1]
    assert 1 <= int(rejected.headers["retry-after"]) <= 10
    body = rejected.json()
    assert body["err_id"] == "ERR-PYOCO-0034"
    assert "one address may make 0.1 requests a second" in body["detail"]
    assert "PYOCO_HTTP_RATE_LIMIT" in body["detail"]
    assert (await http.post("/runs", json={"flow_name": "noop"})).status_code == 429
    assert (await http.get("/health")).status_code == 200, "a probe is always answered"


async def test_there_is_no_limit_unless_one_is_asked_for(http: httpx.AsyncClient) -> None:
    assert {(await http.get("/nowhere")).status_code for _ in range(150)} == {404}
