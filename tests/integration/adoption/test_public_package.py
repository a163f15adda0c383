"""The public package from PyPI is used and stopped, and our programs continue on its NATS data."""

import asyncio
from dataclasses import replace
from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from tests.support.broker.nats_server import NatsServer
from tests.support.public.package import use
from tests.support.public.takeover import adopted_by_ours, check_everything_is_taken_over


async def test_we_continue_where_the_public_package_was_stopped(
    own_nats: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    # Its worker is killed: what it had in progress comes to ours after the AckWait of its consumer.
    settings = {"PYOCO_CONSUMER_ACK_WAIT_SEC": "3", "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "1"}
    left = await asyncio.to_thread(lambda: use(own_nats.url, tmp_path, **settings))
    async with adopted_by_ours(replace(config, nats_url=own_nats.url), left) as ours:
        await check_everything_is_taken_over(ours, left)
