"""The simulated JetStream gives the answers of a real nats-server to random sequences of operations."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import nats
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.simulation.conformance.operations import SECOND_NS, Answer, Session
from tests.simulation.conformance.targets import RealTarget, SimulatedTarget

Operation = tuple[str, tuple[Any, ...]]

_EXAMPLES = 60

_SUBJECTS = {
    "KV_c": ("$KV.c.a", "$KV.c.b", "$KV.c.d.x"),
    "LOG": ("log.a", "log.b.x", "log.b.y"),
    "CAPPED": ("capped.a", "capped.b"),
    "WORK": ("work.a", "work.b"),
    "OBJ": ("$O.a", "$O.b"),
}
_PATTERNS = {
    "KV_c": ("$KV.c.a", "$KV.c.*", "$KV.c.>", ">"),
    "LOG": ("log.a", "log.b.*", "log.>", ">"),
    "CAPPED": ("capped.*", ">"),
    "WORK": ("work.a", "work.>"),
    "OBJ": ("$O.a", "$O.>"),
}
# The consumer is one of WORK.
_streams = st.sampled_from([*sorted(_SUBJECTS), "WORK", "WORK"])
_sequences = st.integers(1, 12)
_data = st.sampled_from([b"", b"x", b"y" * 40])


@st.composite
def _publish(draw: st.DrawFn) -> Operation:
    stream = draw(_streams)
    subject = draw(st.sampled_from(_SUBJECTS[stream]))
    headers: dict[str, str] = {}
    if draw(st.integers(0, 2)) == 0:
        headers["Nats-Expected-Last-Subject-Sequence"] = str(draw(st.integers(0, 4)))
        if draw(st.integers(0, 3)) == 0:
            headers["Nats-Expected-Last-Subject-Sequence-Subject"] = draw(st.sampled_from(_PATTERNS[stream]))
    if draw(st.integers(0, 4)) == 0:
        headers["Nats-Msg-Id"] = draw(st.sampled_from(["m1", "m2", "m3"]))
    if draw(st.integers(0, 5)) == 0:
        headers["KV-Operation"] = "DEL"
    if draw(st.integers(0, 9)) == 0:
        headers["Nats-Rollup"] = draw(st.sampled_from(["sub", "all"]))
    if draw(st.integers(0, 7)) == 0:
        headers["Nats-TTL"] = draw(st.sampled_from(["60s", "never", "2", "0s"]))
    return "publish", (subject, draw(_data), headers)


@st.composite
def _purge(draw: st.DrawFn) -> Operation:
    stream = draw(_streams)
    if draw(st.integers(0, 3)) == 0:
        return "purge", (stream, {})
    # Up to a sequence without a subject, a server also skips sequences that were never used.
    query: dict[str, object] = {"filter": draw(st.sampled_from(_SUBJECTS[stream]))}
    limit = draw(st.sampled_from(["", "seq", "keep"]))
    if limit:
        query[limit] = draw(st.integers(1, 6))
    return "purge", (stream, query)


@st.composite
def _get(draw: st.DrawFn) -> Operation:
    stream = draw(_streams)
    pattern = draw(st.sampled_from(_PATTERNS[stream]))
    query = draw(
        st.sampled_from([{"last_by_subj": pattern}, {"seq": 0}, {"seq": 0, "next_by_subj": pattern}])
    )
    if "seq" in query:
        query = query | {"seq": draw(_sequences)}
    if draw(st.booleans()):
        return "get", (stream, query)
    if draw(st.integers(0, 3)) == 0:
        return "direct_get", (stream, draw(st.sampled_from(_SUBJECTS[stream])), {})
    if draw(st.booleans()):
        query = {"seq": draw(_sequences), "next_by_subj": pattern, "batch": draw(st.integers(1, 4))}
    return "direct_get", (stream, "", query)


_ACKS = [b"+ACK", b"-NAK", b"+TERM", b"+WPI", b'-NAK {"delay": 60000000000}']
_operations = st.one_of(
    _publish(),
    _publish(),
    _publish(),
    _get(),
    _get(),
    _purge(),
    st.tuples(st.just("delete"), st.tuples(_streams, _sequences)),
    st.tuples(st.just("info"), st.tuples(_streams, st.sampled_from(["", ">", "log.>", "work.a"]))),
    st.tuples(st.just("pull"), st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 20, 100_000]))),
    st.tuples(st.just("pull"), st.tuples(st.integers(1, 3))),
    st.tuples(st.just("acknowledge"), st.tuples(st.integers(0, 5), st.sampled_from(_ACKS))),
    st.tuples(st.just("acknowledge"), st.tuples(st.integers(0, 5), st.sampled_from(_ACKS))),
    st.tuples(st.just("consumer"), st.just(())),
    st.tuples(st.just("advisories"), st.just(())),
)
_CONSUMER = {"ack_policy": "explicit", "ack_wait": 60 * SECOND_NS, "max_deliver": 3, "max_ack_pending": 4}


async def _play(session: Session, operations: Sequence[Operation], consumer: dict[str, Any]) -> list[Answer]:
    await session.create(consumer)
    try:
        return [await getattr(session, name)(*arguments) for name, arguments in operations]
    finally:
        await session.remove()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


async def _on_both(url: str, operations: Sequence[Operation], consumer: dict[str, Any]) -> None:
    client = await nats.connect(url)
    try:
        real = await _play(Session(RealTarget(client)), operations, consumer)
    finally:
        await client.close()
    simulated = await _play(Session(SimulatedTarget()), operations, consumer)
    for operation, expected, found in zip(operations, real, simulated, strict=True):
        assert found == expected, f"{operation}: the server answers {expected}, the simulation {found}"


# The same examples each time; `HYPOTHESIS_EXAMPLES=2000 pytest ...` tries more of them.
@seed(21)
@settings(
    max_examples=_EXAMPLES,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(_operations, min_size=1, max_size=40))
def test_every_answer_is_that_of_a_real_server(
    nats_url: str, runner: asyncio.Runner, operations: list[Operation]
) -> None:
    runner.run(_on_both(nats_url, operations, _CONSUMER))


