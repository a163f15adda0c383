"""The metrics of agent requests: by status, the age of the queue, and who gets them."""

from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import ServedRepository, served_config
from tests.support.running.gateway import RunningGateway
from tests.support.running.tenants import having_tenants
from tests.support.scrape import Scrape

COUNT, AGE = "pyoco_agent_requests", "pyoco_agent_requests_oldest_queued_seconds"
STATUSES = ("queued", "running", "needs_input", "failed", "done")


def by_status(page: Scrape) -> dict[str, float | None]:
    return {status: page.value(COUNT, status=status) for status in STATUSES}


async def scraped(served: ServedRepository) -> Scrape:
    return Scrape((await served.http.get("/metrics")).text)


async def age(served: ServedRepository) -> float:
    found = (await scraped(served)).value(AGE)
    assert found is not None
    return found


async def test_requests_are_counted_by_status(served: ServedRepository) -> None:
    empty = await scraped(served)
    assert by_status(empty) == dict.fromkeys(STATUSES, 0)
    assert empty.value(AGE) == 0
    for name in ("first", "second", "third"):
        await served.create(name)
    folder = served.repository.settings.paths.requests
    folder.change("third", lambda file: file.changed({"status": "failed", "failure_reason": "by hand"}))
    page = await scraped(served)
    assert by_status(page) == {**dict.fromkeys(STATUSES, 0), "queued": 2, "failed": 1}
    # Those two were never enqueued.
    assert page.value(AGE) == 0


async def test_age_is_that_of_the_oldest_request_in_the_queue(served: ServedRepository) -> None:
    for name in ("started", "old", "new"):
        await served.create(name)
    await served.act("started", "enqueue")
    await served.has_run("started")
    for name in ("old", "new"):
        await served.act(name, "enqueue")
    stored = await served.queue.get("old")
    assert stored is not None
    assert stored.record.queued_at is not None
    assert await age(served) > 0
    earlier = structs.replace(stored.record, queued_at=stored.record.queued_at - 3600)
    await served.queue.change_or_create("old", lambda record, state: earlier)
    assert await age(served) >= 3600
    for name in ("old", "new"):
        await served.act(name, "stop")
    assert await age(served) == 0


async def test_gateway_without_a_repository_has_no_values(gateway: RunningGateway) -> None:
    page = Scrape((await gateway.http.get("/metrics")).text)
    assert set(by_status(page).values()) == {None}
    assert page.value(AGE) is None


async def test_tenant_gets_those_of_its_own_repository(
    config: NatsBackendConfig, repository: AgentRepository
) -> None:
    repository.request()
    keyed = served_config(config, repository, agent_tenant="acme")
    async with having_tenants(keyed, "acme", "rival") as (own, other):
        assert Scrape((await own.http.get("/metrics")).text).value(COUNT, status="queued") == 1
        assert Scrape((await other.http.get("/metrics")).text).value(COUNT, status="queued") is None
