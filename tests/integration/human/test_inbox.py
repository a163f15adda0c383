"""The inbox stream: open waits and their changes, per tenant."""

import json
from typing import Any

import pytest

from pyoco_server.broker.jetstream import bucket_feed
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState
from pyoco_server.runs.watch.followers import ResyncRequired
from pyoco_server.waits.human.inbox_hub import InboxChange, InboxHub
from pyoco_server.waits.index.wait_items import item_of
from tests.support.broker.stored_waits import a_wait, ask, decide, decided
from tests.support.event_reading import EventReader, reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.tenants import OPERATOR, having_tenants
from tests.support.waiting import NEVER_SEC, eventually


def told(reading: EventReader) -> list[tuple[str, Any]]:
    """Each event in short: its name, and the names of its waits."""
    found = []
    for event in reading.events:
        data = json.loads(event.data)
        if event.name == "open":
            found.append(("open", {wait["name"] for wait in data["waits"]}))
        elif event.name != "heartbeat":
            found.append((event.name, data["wait"]["name"]))
    return found


def shown(reading: EventReader) -> set[str]:
    """The waits that a client shows after these events."""
    waits: set[str] = set()
    for event in reading.events:
        data = json.loads(event.data)
        if event.name == "open":
            waits = {wait["wait_id"] for wait in data["waits"]}
            assert all(wait["state"] == "open" for wait in data["waits"])
        elif event.name == "opened":
            waits.add(data["wait"]["wait_id"])
        elif event.name == "closed":
            waits.discard(data["wait"]["wait_id"])
    return waits


async def reads(reading: EventReader, *expected: tuple[str, Any]) -> None:
    await eventually(lambda: told(reading) == list(expected), describe=f"events {expected}")


async def ready(gateway: RunningGateway) -> None:
    await eventually(lambda: gateway.inside.waits.inbox.ready, describe="the inbox can be followed")


# Over HTTP


async def test_first_all_that_is_open_then_each_change_and_after_a_reconnect_what_was_missed(
    gateway: RunningGateway,
) -> None:
    await ready(gateway)
    one, two = await ask(gateway.inside, "one", "two")
    async with reading_events(gateway.http, "/waits/watch") as reading:
        await reads(reading, ("open", {"one", "two"}))
        await ask(gateway.inside, "three")
        await reads(reading, ("open", {"one", "two"}), ("opened", "three"))
        await decide(gateway.inside.waits.store, two, WaitState.EXPIRED)
        await reads(reading, ("open", {"one", "two"}), ("opened", "three"), ("closed", "two"))
        assert json.loads(reading.events[-1].data)["wait"]["state"] == "expired"
        last = {"Last-Event-ID": str(reading.events[-1].id)}
    await eventually(lambda: gateway.inside.waits.inbox.followers == 0, describe="nobody follows")
    await decide(gateway.inside.waits.store, one)
    await ask(gateway.inside, "four")
    async with reading_events(gateway.http, "/waits/watch", headers=last) as reading:
        await reads(reading, ("closed", "one"), ("opened", "four"))
    # Without a position, all that is open.
    async with reading_events(gateway.http, "/waits/watch") as reading:
        await reads(reading, ("open", {"three", "four"}))


async def test_a_change_is_sent_at_once(config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is found by polling: that would be too late.
    monkeypatch.setattr(bucket_feed, "_POLL_SEC", NEVER_SEC)
    async with running_gateway(config) as gateway:
        await ready(gateway)
        async with reading_events(gateway.http, "/waits/watch") as reading:
            await reads(reading, ("open", set()))
            for number in range(5):
                await ask(gateway.inside, f"n{number}")
                opened = [("opened", f"n{seen}") for seen in range(number + 1)]
                await reads(reading, ("open", set()), *opened)


async def test_an_unknown_position_receives_all_open_waits(gateway: RunningGateway) -> None:
    await ready(gateway)
    await ask(gateway.inside, "one", "two")
    await gateway.http.get("/waits")
    # As if more had happened than is kept.
    gateway.inside.waits.inbox.begin(gateway.inside.waits.index.checkpoint.created, 2)
    bucket = gateway.inside.waits.inbox.position(0).bucket
    for place in ("00000000-1", f"{bucket}-0"):
        async with reading_events(gateway.http, "/waits/watch", headers={"Last-Event-ID": place}) as reading:
            await reads(reading, ("open", {"one", "two"}))
    for query, headers, field in (
        ({"timeout_sec": "0"}, {}, "timeout_sec"),
        ({"state": "open"}, {}, "state"),
        ({}, {"Last-Event-ID": "x"}, "Last-Event-ID"),
    ):
        answer = await gateway.http.get("/waits/watch", params=query, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == field


async def test_a_position_is_valid_on_another_gateway(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as one, running_gateway(config) as other:
        await ready(other)
        await ready(one)
        async with reading_events(one.http, "/waits/watch") as reading:
            [first] = await ask(one.inside, "first")
            await reads(reading, ("open", set()), ("opened", "first"))
            last = reading.events[-1].id
        await decide(one.inside.waits.store, first)
        headers = {"Last-Event-ID": str(last)}
        async with reading_events(other.http, "/waits/watch", headers=headers) as reading:
            await reads(reading, ("closed", "first"))


async def test_the_inbox_never_shows_a_decided_wait(gateway: RunningGateway) -> None:
    """Watches begin while waits are answered; each shows in the end what is open, and nothing else."""
    await ready(gateway)
    left: list[WaitRecord] = []
    for number in range(15):
        answered, still_open = await ask(gateway.inside, f"a{number}", f"b{number}")
        left.append(still_open)
        answer = await gateway.http.post(f"/waits/{answered.wait_id}/respond", json={"payload": number})
        assert answer.status_code == 200, answer.text
        async with reading_events(gateway.http, "/waits/watch") as reading:
            await eventually(lambda: reading.events, describe="the first event")
            assert shown(reading) == {wait.wait_id for wait in left}


async def test_a_rebuilt_index_sends_all_open_waits_again(gateway: RunningGateway) -> None:
    await ready(gateway)
    await ask(gateway.inside, "one")
    async with reading_events(gateway.http, "/waits/watch") as reading:
        await reads(reading, ("open", {"one"}))
        await gateway.inside.waits.index.begin("another bucket")
        await reads(reading, ("open", {"one"}), ("open", {"one"}))


async def test_an_idle_inbox_sends_heartbeats(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.http_api.streams.sse.KEEPALIVE_SEC", 0.05)
    await ready(gateway)
    async with reading_events(gateway.http, "/waits/watch") as reading:
        await eventually(lambda: len(reading.events) > 2, describe="two signs of life")
    names = [event.name for event in reading.events]
    assert names[0] == "open"
    assert set(names[1:]) == {"heartbeat"}
    assert len({event.id for event in reading.events}) == 1


async def test_a_question_goes_with_its_answer_and_with_its_cancelled_run(gateway: RunningGateway) -> None:
    await ready(gateway)
    answered, cancelled = [(await ask(gateway.inside, name))[0] for name in ("answered", "cancelled")]
    async with reading_events(gateway.http, "/waits/watch") as reading:
        await reads(reading, ("open", {"answered", "cancelled"}))
        for path, body in (
            ("/resume", {"runId": answered.run_id, "payload": "yes"}),
            (f"/runs/{cancelled.run_id}/cancel", None),
        ):
            answer = await gateway.http.post(path, json=body)
            assert answer.status_code == 200, answer.text
        await eventually(lambda: not shown(reading), describe="the questions are gone")
        closed = [json.loads(event.data) for event in reading.events if event.name == "closed"]
        states = [data["wait"]["state"] for data in closed]
        assert states == ["answered", "cancelled"]


# Tenants


async def test_each_tenant_sees_its_own_waits(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival", OPERATOR) as (acme, rival, operator):
        await ready(acme)
        [old] = await ask(acme.inside, "old", tenant_id="acme")
        async with (
            reading_events(acme.http, "/waits/watch") as of_acme,
            reading_events(rival.http, "/waits/watch") as of_rival,
            reading_events(operator.http, "/waits/watch") as of_operator,
        ):
            await reads(of_acme, ("open", {"old"}))
            await reads(of_rival, ("open", set()))
            await decide(acme.inside.waits.store, old)
            await ask(acme.inside, "new", tenant_id="acme")
            await ask(acme.inside, "rivals", tenant_id="rival")
            await reads(of_acme, ("open", {"old"}), ("closed", "old"), ("opened", "new"))
            await reads(of_rival, ("open", set()), ("opened", "rivals"))
            changes = [("closed", "old"), ("opened", "new"), ("opened", "rivals")]
            await reads(of_operator, ("open", {"old"}), *changes)
            assert b"acme" not in of_rival.raw
            assert old.run_id.encode() not in of_rival.raw
            last = str(of_rival.events[-1].id)
        # Nor does a reconnect show waits of other tenants.
        await ask(acme.inside, "acmes", tenant_id="acme")
        await ask(acme.inside, "next", tenant_id="rival")
        async with reading_events(rival.http, "/waits/watch", headers={"Last-Event-ID": last}) as reading:
            await reads(reading, ("opened", "next"))
            assert b"acme" not in reading.raw


# The hub alone


def change(revision: int, wait: WaitRecord | None, before: WaitRecord | None = None) -> InboxChange:
    return InboxChange(
        revision, None if wait is None else item_of(wait), None if before is None else item_of(before)
    )


@pytest.fixture
async def hub() -> InboxHub:
    inbox = InboxHub(max_changes=3)
    inbox.begin("a bucket", 10)
    return inbox


async def test_an_old_position_is_lost(hub: InboxHub) -> None:
    waits = [a_wait(new_run_id(), f"n{number}") for number in range(4)]
    with hub.follow(None) as slow, hub.follow(None) as fast:
        slow.position, fast.position = hub.position(10), hub.position(11)
        hub.publish([change(11 + number, wait) for number, wait in enumerate(waits)])
        assert [each.revision for each in await fast.next(0)] == [12, 13, 14]
        with pytest.raises(ResyncRequired):
            await slow.next(0)


async def test_a_later_position_receives_only_later_changes(hub: InboxHub) -> None:
    """A list may have a later revision than the feed has published."""
    one, two = a_wait(new_run_id(), "one"), a_wait(new_run_id(), "two")
    with hub.follow(None) as follower:
        follower.position = hub.position(11)
        assert await follower.next(0) == []
        hub.publish([change(11, one)])
        assert await follower.next(0) == []
        hub.publish([change(12, two)])
        assert [each.revision for each in await follower.next(0)] == [12]


async def test_a_wait_that_is_removed_closes_if_it_was_open(hub: InboxHub) -> None:
    was_open, was_decided = a_wait(new_run_id()), decided(a_wait(new_run_id()))
    with hub.follow(None) as follower:
        follower.position = hub.position(10)
        hub.publish([change(11, None, was_open), change(12, None, was_decided), change(13, None)])
        [closed] = await follower.next(0)
        assert (closed.revision, closed.opened) == (11, False)


async def test_followers_wake_only_for_their_tenant(hub: InboxHub) -> None:
    with hub.follow("acme") as acme, hub.follow("rival") as rival:
        acme.position = rival.position = hub.position(10)
        hub.publish([change(11, a_wait(new_run_id(), tenant_id="acme"))])
        assert acme._changed.is_set()
        assert not rival._changed.is_set()
        assert [each.revision for each in await acme.next(0)] == [11]
        assert await rival.next(0) == []
