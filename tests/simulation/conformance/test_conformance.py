"""The simulated JetStream gives the answers of a real nats-server to random sequences of operations."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import nats
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.simulation.conformance.operations import SECOND_NS, Answer, Session
from tests.simulation.conformance.targets import RealTarget, SimulatedTarget
from tests.support.broker.nats_server import NatsServer

Operation = tuple[str, tuple[Any, ...]]

_EXAMPLES = 60
_MOST_PLAYS = 20

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
    sequence = {"seq": draw(_sequences)}
    queries: list[dict[str, Any]] = [
        {"last_by_subj": pattern},
        sequence,
        sequence | {"next_by_subj": pattern},
    ]
    query = draw(st.sampled_from(queries))
    if draw(st.booleans()):
        return "get", (stream, query)
    if draw(st.integers(0, 3)) == 0:
        return "direct_get", (stream, draw(st.sampled_from(_SUBJECTS[stream])), {})
    if draw(st.booleans()):
        query = {"seq": draw(_sequences), "next_by_subj": pattern, "batch": draw(st.integers(1, 4))}
    elif draw(st.booleans()):
        subjects = draw(st.lists(st.sampled_from(_SUBJECTS[stream]), min_size=1, unique=True))
        query = {
            "multi_last": subjects,
            "batch": draw(st.integers(1, 4)),
            "max_bytes": draw(st.sampled_from([1, 1_000_000])),
        }
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
_consumers = st.sampled_from([_CONSUMER, _CONSUMER | {"filter_subject": "work.a"}])


@dataclass(slots=True)
class _Played:
    answers: list[Answer] = field(default_factory=list)
    # When each operation began and ended: the server got it in between.
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    @property
    def possible_times(self) -> list[list[float]]:
        """When the server may have got the operations: as close to each other as possible, and as far."""
        both = list(zip(self.began, self.ended, strict=True))
        mixed = [[pair[(number + first) % 2] for number, pair in enumerate(both)] for first in (0, 1)]
        return [self.began, self.ended, *mixed]


async def _play(
    session: Session,
    operations: Sequence[Operation],
    consumer: dict[str, Any],
    times: Sequence[float] | None = None,
) -> _Played:
    await session.create(consumer)
    try:
        return await _answers(session, operations, times)
    finally:
        await session.remove()


async def _answers(
    session: Session, operations: Sequence[Operation], times: Sequence[float] | None = None
) -> _Played:
    """`times`: no operation begins before its time."""
    played = _Played()
    for (name, arguments), at in zip(operations, times or [0.0] * len(operations), strict=True):
        await session.target.wait(max(0.0, at - session.target.now()))
        played.began.append(session.target.now())
        played.answers.append(await getattr(session, name)(*arguments))
        # A server gets nothing while the test waits.
        played.ended.append(played.began[-1] if name == "wait" else session.target.now())
    return played


def _compare(operations: Sequence[Operation], real: list[Answer], simulated: list[Answer]) -> None:
    for operation, expected, found in zip(operations, real, simulated, strict=True):
        assert found == expected, f"{operation}: the server answers {expected}, the simulation {found}"


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


async def _on_both(url: str, operations: Sequence[Operation], consumer: dict[str, Any]) -> None:
    real = await _on_real_server(url, operations, consumer)
    simulated = await _play(Session(SimulatedTarget()), operations, consumer)
    _compare(operations, real.answers, simulated.answers)


async def _on_real_server(url: str, operations: Sequence[Operation], consumer: dict[str, Any]) -> _Played:
    client = await nats.connect(url)
    try:
        return await _play(Session(RealTarget(client)), operations, consumer)
    finally:
        await client.close()


async def _on_both_at_the_same_times(
    url: str, operations: Sequence[Operation], consumer: dict[str, Any]
) -> None:
    """The simulated server gets each operation when the real one got it.

    On a busy machine that may not be known well enough to say what its answer should be: then all is played
    again.
    """
    for _ in range(_MOST_PLAYS):
        real = await _on_real_server(url, operations, consumer)
        first, *others = [
            (await _play(Session(SimulatedTarget()), operations, consumer, times)).answers
            for times in real.possible_times
        ]
        if all(each == first for each in others):
            _compare(operations, real.answers, first)
            return
    pytest.fail("this machine is too busy: it is not known when the server got an operation")


# The same examples each time.
@seed(21)
@settings(
    max_examples=_EXAMPLES,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(_operations, min_size=1, max_size=40), _consumers)
def test_every_answer_is_that_of_a_real_server(
    nats_url: str, runner: asyncio.Runner, operations: list[Operation], consumer: dict[str, Any]
) -> None:
    runner.run(_on_both(nats_url, operations, consumer))


_QUICK = {"ack_policy": "explicit", "ack_wait": SECOND_NS // 2, "max_deliver": 2, "filter_subject": "work.a"}
_JOB: Operation = ("publish", ("work.a", b"job", {"Nats-Msg-Id": "job"}))
_TIMED: dict[str, list[Operation]] = {
    "AckWait": [
        _JOB,
        ("pull", (1,)),
        ("pull", (1,)),
        ("wait", (1.0,)),
        ("consumer", ()),
        ("pull", (2,)),
        ("wait", (1.0,)),
        ("advisories", ()),
        ("pull", (1,)),
        ("consumer", ()),
        ("get", ("WORK", {"seq": 1})),
        ("acknowledge", (1, b"+ACK")),
        ("info", ("WORK", "")),
        _JOB,
    ],
    "extended": [
        _JOB,
        ("pull", (1,)),
        ("wait", (0.3,)),
        ("acknowledge", (0, b"+WPI")),
        ("wait", (0.3,)),
        ("pull", (1,)),
        ("acknowledge", (0, b"+ACK")),
        ("wait", (0.6,)),
        ("pull", (1,)),
        ("info", ("WORK", "")),
    ],
    # Then JetStream publishes the advisory after AckWait, without a pull that would deliver it again.
    "one delivery": [
        ("listen", ()),
        _JOB,
        ("publish", ("work.a", b"second", {})),
        ("pull", (2,)),
        ("acknowledge", (1, b"-NAK")),
        ("advisories", ()),
        ("wait", (1.0,)),
        ("advisories", ()),
        ("consumer", ()),
        ("pull", (1,)),
        ("advisories", ()),
        ("consumer", ()),
        ("acknowledge", (0, b"+ACK")),
        ("info", ("WORK", "")),
        ("consumer", ()),
    ],
    "NAK with a delay": [
        _JOB,
        ("pull", (1,)),
        ("acknowledge", (0, b'-NAK {"delay": 1000000000}')),
        ("wait", (0.7,)),
        ("pull", (1,)),
        ("wait", (0.7,)),
        ("pull", (1,)),
        ("acknowledge", (1, b"-NAK")),
        ("advisories", ()),
        ("consumer", ()),
    ],
    "pulls that wait": [
        ("begin_pull", (2, 1.0)),
        ("begin_pull", (1, 3.0)),
        _JOB,
        ("publish", ("work.b", b"for another consumer", {})),
        ("wait", (1.5,)),
        ("publish", ("work.a", b"second", {})),
        ("wait", (0.3,)),
        ("end_pulls", ()),
        ("consumer", ()),
    ],
    "time to live": [
        ("publish", ("$KV.c.a", b"short", {"Nats-TTL": "1s"})),
        ("publish", ("$KV.c.b", b"long", {"Nats-TTL": "60s"})),
        ("publish", ("short.a", b"", {"Nats-Msg-Id": "m"})),
        ("publish", ("short.a", b"", {"Nats-Msg-Id": "m"})),
        ("wait", (0.7,)),
        ("publish", ("short.b", b"", {"Nats-Msg-Id": "m"})),
        ("wait", (2.5,)),
        ("get", ("KV_c", {"last_by_subj": "$KV.c.a"})),
        ("get", ("KV_c", {"last_by_subj": "$KV.c.b"})),
        ("info", ("KV_c", ">")),
        ("info", ("SHORT", "")),
        ("publish", ("$KV.c.a", b"", {"Nats-Expected-Last-Subject-Sequence": "0"})),
    ],
}


@pytest.mark.parametrize("name", _TIMED)
def test_time_passes_as_on_a_real_server(nats_url: str, runner: asyncio.Runner, name: str) -> None:
    consumer = _QUICK | {"max_deliver": 1} if name == "one delivery" else _QUICK
    runner.run(_on_both_at_the_same_times(nats_url, _TIMED[name], consumer))


_BEFORE_RESTART: list[Operation] = [
    _JOB,
    ("publish", ("work.a", b"second", {"Nats-Msg-Id": "second"})),
    ("publish", ("log.a", b"", {"Nats-Msg-Id": "kept"})),
    ("pull", (1,)),
    ("acknowledge", (0, b"+ACK")),
    ("pull", (1,)),
]
_AFTER_RESTART: list[Operation] = [
    ("info", ("WORK", "")),
    ("consumer", ()),
    # JetStream knows the ids of the messages that it has.
    ("publish", ("log.a", b"", {"Nats-Msg-Id": "kept"})),
    _JOB,
    ("publish", ("work.a", b"second", {"Nats-Msg-Id": "second"})),
    ("acknowledge", (1, b"-NAK")),
    ("pull", (3,)),
    ("consumer", ()),
]


def test_restart_keeps_what_a_real_server_keeps(own_nats: NatsServer, runner: asyncio.Runner) -> None:
    consumer = _QUICK | {"ack_wait": 60 * SECOND_NS, "max_deliver": 5}

    async def on_real_server() -> list[Answer]:
        client = await nats.connect(own_nats.url)
        session = Session(RealTarget(client))
        await session.create(consumer, storage="file")
        before = await _answers(session, _BEFORE_RESTART)
        await client.close()
        await asyncio.to_thread(own_nats.stop)
        await asyncio.to_thread(own_nats.start)
        client = await nats.connect(own_nats.url)
        session.target = RealTarget(client)
        after = await _answers(session, _AFTER_RESTART)
        await client.close()
        return before.answers + after.answers

    async def on_simulated_server() -> list[Answer]:
        target = SimulatedTarget()
        session = Session(target)
        await session.create(consumer)
        before = await _answers(session, _BEFORE_RESTART)
        target.server.restart()
        after = await _answers(session, _AFTER_RESTART)
        return before.answers + after.answers

    real, simulated = runner.run(on_real_server()), runner.run(on_simulated_server())
    _compare([*_BEFORE_RESTART, *_AFTER_RESTART], real, simulated)
