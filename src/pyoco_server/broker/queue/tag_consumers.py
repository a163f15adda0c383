"""The consumer of a tag and its limits: the one that the tag has already, whoever created it, or ours.

A work queue has at most one consumer for each subject. That of a tag may have been created by the public
package pyoco-server or by an administrator: workers bind to it, and it keeps its limits.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.broker.client.connection import Connection, NoResponders
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.settings_table import MIN_ACK_WAIT_SEC
from pyoco_server.errors import NatsForbidden, UnusableConsumer

log = logging.getLogger(__name__)

_EXPLICIT: Final = "explicit"


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """Of the consumer of a tag; an existing consumer keeps its own."""

    ack_wait_sec: float
    # 0 or less: unlimited.
    max_deliver: int

    def exhausted_by(self, number: int) -> bool:
        """Whether the delivery of this number is the last one."""
        return 0 < self.max_deliver <= number


@dataclass(frozen=True, slots=True)
class TagConsumer:
    """The consumer that a worker pulls the jobs of a tag from."""

    name: str
    limits: DeliveryLimits


# Of messages that no consumer of a tag has delivered.
NO_LIMITS: Final = DeliveryLimits(math.inf, 0)


def configured_limits(config: NatsBackendConfig) -> DeliveryLimits:
    """Of a consumer that does not exist yet."""
    return DeliveryLimits(config.consumer_ack_wait_sec, config.consumer_max_deliver)


def limits_in(config: Mapping[str, Any]) -> DeliveryLimits:
    """From the configuration of a consumer."""
    return DeliveryLimits(float(config["ack_wait"]) / 1e9, int(config.get("max_deliver", -1)))


async def ensure_consumer(connection: Connection, tag: str) -> TagConsumer:
    """The tag's durable consumer, created if there is none.

    UnusableConsumer if an existing one has options with which a worker cannot use it.
    """
    config = connection.config
    consumer = ConsumerConfig(
        durable_name=consumer_name(tag),
        filter_subject=work_subject(config, tag),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=config.consumer_ack_wait_sec,
        max_deliver=config.consumer_max_deliver,
        max_ack_pending=config.consumer_max_ack_pending,
    )
    try:
        info = await jetstream_api.ensure_consumer(connection, config.work_stream, consumer)
    except jetstream_api.NotUnique as refused:
        info = await _existing(connection, tag, refused)
    return TagConsumer(name=str(info["name"]), limits=_usable_limits(config, info))


async def limits_of_usable(connection: Connection, tag: str) -> DeliveryLimits:
    """The limits of a tag's consumer; UnusableConsumer if a worker cannot use it."""
    info = await consumer_info(connection, tag)
    return configured_limits(connection.config) if info is None else _usable_limits(connection.config, info)


async def _existing(connection: Connection, tag: str, refused: jetstream_api.NotUnique) -> dict[str, Any]:
    """The consumer that has the jobs of the tag already, under another name than ours."""
    found = await other_consumer(connection, tag)
    stream = connection.config.work_stream
    if found is None:
        raise UnusableConsumer(
            f"the stream {stream} has a consumer that takes the jobs of the tag {tag} and of others "
            f"({refused}); `nats consumer ls {stream}` lists it"
        )
    log.info("the tag %s is served by the existing consumer %s", tag, found["name"])
    return found


def _usable_limits(config: NatsBackendConfig, info: Mapping[str, Any]) -> DeliveryLimits:
    if problem := problem_with(config, info):
        raise UnusableConsumer(problem)
    return limits_in(info["config"])


def consumer_name(tag: str) -> str:
    """Of the consumer that we create for a tag."""
    return f"pyoco_worker_{tag}"


async def consumers(connection: Connection) -> list[dict[str, Any]]:
    """All consumers of the queue."""
    found: list[dict[str, Any]] = []
    endpoint = f"CONSUMER.LIST.{connection.config.work_stream}"
    while True:
        try:
            page = await jetstream_api.call(connection, endpoint, {"offset": len(found)})
        except jetstream_api.ApiRefused as refused:
            raise connection.unavailable(f"{endpoint}: {refused}") from refused
        found += page["consumers"] or []
        if len(found) >= page["total"] or not page["consumers"]:
            return found


async def consumer_info(connection: Connection, tag: str) -> dict[str, Any] | None:
    """Of the consumer of a tag; None while no worker has ever served the tag."""
    endpoint = f"CONSUMER.INFO.{connection.config.work_stream}.{consumer_name(tag)}"
    try:
        info = await jetstream_api.call(connection, endpoint)
    except jetstream_api.ApiRefused as refused:
        if refused.code != jetstream_api.NOT_FOUND:
            raise connection.unavailable(f"{endpoint}: {refused}") from refused
    else:
        if subjects_of(info) == [work_subject(connection.config, tag)]:
            return info
    return await other_consumer(connection, tag)


async def other_consumer(connection: Connection, tag: str) -> dict[str, Any] | None:
    """The consumer of a tag that has another name than ours."""
    subject = work_subject(connection.config, tag)
    try:
        listed = await consumers(connection)
    except (NoResponders, NatsForbidden):
        # A user without the right to list them has no right to use another one either.
        return None
    return next((info for info in listed if subjects_of(info) == [subject]), None)


def subjects_of(info: Mapping[str, Any]) -> list[str]:
    """The subjects that a consumer takes messages of."""
    config = info["config"]
    several = config.get("filter_subjects") or []
    return list(several) or [config.get("filter_subject") or ">"]


def tag_of(config: NatsBackendConfig, info: Mapping[str, Any]) -> str | None:
    """The tag that a consumer is for; None if it takes jobs of several."""
    prefix = f"{config.work_subject_prefix}."
    (subject, *more) = subjects_of(info)
    tag = subject.removeprefix(prefix)
    is_one = not more and subject.startswith(prefix) and not set(tag) & set(".*>")
    return tag if is_one else None


def problem_with(config: NatsBackendConfig, info: Mapping[str, Any]) -> str:
    """Why no worker can use it; empty if workers can."""
    which = f"the consumer {info['name']} of the stream {config.work_stream}"
    options = info["config"]
    if tag_of(config, info) is None:
        return (
            f"{which} takes the jobs of {', '.join(subjects_of(info))} (its `filter_subject`), so that no "
            f"tag of these can have a consumer; expected one tag, as in {config.work_subject_prefix}.default"
        )
    if options.get("deliver_subject"):
        return f"{which} is a push consumer (`deliver_subject`); expected a pull consumer"
    if options.get("ack_policy") != _EXPLICIT:
        return f"{which} has the `ack_policy` {options.get('ack_policy')}; expected {_EXPLICIT}"
    if (ack_wait_sec := float(options["ack_wait"]) / 1e9) < MIN_ACK_WAIT_SEC:
        return (
            f"{which} has an AckWait of {ack_wait_sec:g} s; expected at least {MIN_ACK_WAIT_SEC:g} s, "
            "because a worker cannot extend a delivery in a shorter time, and its run would be executed twice"
        )
    return ""


@dataclass(frozen=True, slots=True)
class _Unusable:
    subjects: list[str]
    problem: str


class UnusableConsumers:
    """The consumers that no worker can use. A run with one of their tags would never start."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.found: list[_Unusable] = []
        connection.on_connect(self.read)

    async def read(self) -> None:
        config, known = self._connection.config, {each.problem for each in self.found}
        self.found = [
            _Unusable(subjects_of(info), problem)
            for info in await consumers(self._connection)
            if (problem := problem_with(config, info))
        ]
        for each in self.found:
            if each.problem not in known:
                log.error("runs with these tags are refused: %s", each.problem)

    async def check(self, tag: str) -> None:
        """Raise UnusableConsumer if the tag's is one of them, and still is."""
        if self._problem(tag):
            await self.read()
            if problem := self._problem(tag):
                raise UnusableConsumer(problem)

    def _problem(self, tag: str) -> str:
        subject = work_subject(self._connection.config, tag)
        for each in self.found:
            if any(_covers(pattern, subject) for pattern in each.subjects):
                return each.problem
        return ""


def work_subject(config: NatsBackendConfig, tag: str) -> str:
    """Where the jobs of a tag are published."""
    return f"{config.work_subject_prefix}.{tag}"


def _covers(pattern: str, subject: str) -> bool:
    expected, given = pattern.split("."), subject.split(".")
    if expected[-1] == ">":
        given = given[: len(expected)]
        expected = [*expected[:-1], "*"]
    return len(expected) == len(given) and all(
        each in ("*", word) for each, word in zip(expected, given, strict=True)
    )
