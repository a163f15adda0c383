"""The tests' own tools: accounts do not see each other, a server keeps its data, and waiting has an end."""

import nats
import pytest
from nats.js import JetStreamContext

from pyoco_server.config import NatsBackendConfig
from tests.support import waiting
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import eventually, eventually_sync


async def stream_names(context: JetStreamContext) -> list[str | None]:
    return [stream.config.name for stream in await context.streams_info()]


async def test_what_one_account_has_another_does_not_see(shared_nats: NatsServer, nats_url: str) -> None:
    mine = await nats.connect(nats_url)
    other = await nats.connect(shared_nats.account_urls[-1])
    await mine.jetstream().add_stream(name="MINE", subjects=["mine"])
    assert await stream_names(mine.jetstream()) == ["MINE"]
    assert await stream_names(other.jetstream()) == []
    await mine.close()
    await other.close()


async def test_a_killed_server_comes_back_with_its_port_and_its_data(own_nats: NatsServer) -> None:
    url, pid = own_nats.url, own_nats.pid
    before = await nats.connect(url)
    await before.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await before.close()
    own_nats.kill()
    own_nats.restart()
    assert own_nats.url == url
    assert own_nats.pid != pid
    after = await nats.connect(url)
    assert await stream_names(after.jetstream()) == ["KEPT"]
    await after.close()


def test_settings_of_a_test_point_to_its_own_account(config: NatsBackendConfig, nats_url: str) -> None:
    assert config.nats_url == nats_url


async def test_waiting_returns_the_answer_or_says_what_did_not_happen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([0, None, 7])

    async def answer() -> int | None:
        return next(answers)

    assert await eventually(answer, describe="an answer") == 7
    monkeypatch.setattr(waiting, "LIMIT_SEC", 0.05)
    with pytest.raises(AssertionError, match=r"not within 0.05 s: the impossible \(last answer: False\)"):
        await eventually(lambda: False, describe="the impossible")
    with pytest.raises(AssertionError, match="the impossible"):
        eventually_sync(lambda: False, describe="the impossible")


async def test_a_probe_that_fails_ends_the_waiting() -> None:
    def broken() -> bool:
        raise TimeoutError("the probe's own")

    with pytest.raises(TimeoutError, match="the probe's own"):
        await eventually(broken, describe="never")
