"""With the rights that `nats-config` gives, the feeds of a gateway hear of each write."""

import pytest

from tests.support.broker.stored_waits import ask
from tests.support.event_reading import reading_events
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import Installation, installation, started, violations
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


async def test_who_watches_is_told_with_the_rights_of_a_gateway(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(installation.settings("gateway")) as gateway:
        inside = gateway.inside
        await eventually(
            lambda: inside.listing.changes.ready and inside.waits.inbox.ready, describe="all is read"
        )
        async with (
            reading_events(gateway.http, "/runs/watch") as runs,
            reading_events(gateway.http, "/waits/watch") as waits,
        ):
            [wait] = await ask(inside)
            mark = wait.run_id.encode()
            await eventually(lambda: mark in runs.raw and mark in waits.raw, describe="it is told")
    assert violations(caplog) == []
