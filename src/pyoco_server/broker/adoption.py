"""Takes over an existing installation: of the public package pyoco-server 0.5, or of an earlier version.

Gateways and workers read the old records and bind to the old consumers automatically. An administrator does
here what needs rights that they may lack, and sees what cannot be taken over.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nats.js.api import StreamConfig

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_options import change, differences
from pyoco_server.broker.queue.tag_consumers import (
    consumer_name,
    consumers,
    ensure_consumer,
    problem_with,
    tag_of,
)
from pyoco_server.broker.stores.api_keys import ApiKeys
from pyoco_server.broker.stores.trusted_records import is_trust_decided
from pyoco_server.broker.streams_and_buckets import resources


class AdoptionAction(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    REPLACE = "replace"
    CONVERT = "convert"
    # Nothing has to be done.
    KEEP = "keep"
    # It cannot be taken over.
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    kind: str
    name: str
    action: AdoptionAction
    detail: str
    apply: Callable[[], Awaitable[object]] | None = None


class Adoption:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config
        self._keys = ApiKeys(connection)

    async def steps(self) -> list[Step]:
        """What has to be done, and what is found; nothing is changed."""
        found: dict[str, dict[str, Any]] = {}
        for config in resources(self._config):
            if (info := await self._stream(str(config.name))) is not None:
                found[str(config.name)] = info
        steps = [step for config in resources(self._config) for step in self._stream_steps(config, found)]
        if self._config.work_stream in found:
            steps += [self._consumer_step(info) for info in await consumers(self._connection)]
        if f"KV_{self._config.auth_kv_bucket}" in found:
            steps += [self._key_step(key_id) for key_id in await self._keys.public_ids()]
        if runs := found.get(f"KV_{self._config.runs_kv_bucket}"):
            steps.append(await self._run_step(runs, is_new=f"KV_{self._config.lease_kv_bucket}" not in found))
        return steps

    async def _stream(self, name: str) -> dict[str, Any] | None:
        try:
            return await jetstream_api.call(self._connection, f"STREAM.INFO.{name}")
        except jetstream_api.ApiRefused as refused:
            if refused.code != jetstream_api.NOT_FOUND:
                raise self._connection.unavailable(f"{name}: {refused}") from refused
            return None

    def _stream_steps(self, expected: StreamConfig, found: dict[str, dict[str, Any]]) -> Iterator[Step]:
        name = str(expected.name)
        if name not in found:

            async def create() -> None:
                await jetstream_api.ensure_stream(self._connection, expected)

            yield Step(
                kind="stream",
                name=name,
                action=AdoptionAction.CREATE,
                detail="it does not exist",
                apply=create,
            )
            return
        config = found[name]["config"]
        differing = differences(expected, config)
        changes = [each for each in differing if each.changeable]

        async def apply() -> None:
            try:
                await change(self._connection, config, changes)
            except jetstream_api.ApiRefused as refused:
                raise self._connection.unavailable(f"{name}: {refused}") from refused

        for each in differing:
            if not each.changeable:
                detail = f"{each}: {each.why}"
                yield Step(kind="stream", name=name, action=AdoptionAction.IMPOSSIBLE, detail=detail)
        if changes:
            detail = "; ".join(
                f"{each.option}: {each.found} -> {each.expected} ({each.why})" for each in changes
            )
            yield Step(kind="stream", name=name, action=AdoptionAction.CHANGE, detail=detail, apply=apply)

    def _consumer_step(self, info: dict[str, Any]) -> Step:
        name, tag = str(info["name"]), tag_of(self._config, info)
        if problem := problem_with(self._config, info):
            return Step(kind="consumer", name=name, action=AdoptionAction.IMPOSSIBLE, detail=problem)
        assert tag is not None
        if name == consumer_name(tag):
            return Step(kind="consumer", name=name, action=AdoptionAction.KEEP, detail=f"of the tag {tag}")
        if info["num_waiting"] or info["num_ack_pending"]:
            detail = (
                f"of the tag {tag}; workers bind to it. It is in use ({info['num_waiting']} pulls, "
                f"{info['num_ack_pending']} jobs in progress) and not replaced now"
            )
            return Step(kind="consumer", name=name, action=AdoptionAction.KEEP, detail=detail)

        async def replace() -> None:
            # A job stays in the queue until it is acknowledged, with or without a consumer.
            with suppress(jetstream_api.ApiRefused):
                await jetstream_api.call(
                    self._connection, f"CONSUMER.DELETE.{self._config.work_stream}.{name}"
                )
            await ensure_consumer(self._connection, tag)

        detail = f"of the tag {tag}: by {consumer_name(tag)}, which `nats-config` gives workers access to"
        return Step(kind="consumer", name=name, action=AdoptionAction.REPLACE, detail=detail, apply=replace)

    def _key_step(self, key_id: str) -> Step:
        async def convert() -> None:
            await self._keys.change(key_id, lambda record: record)

        detail = "of the public package: its secret stays valid, with all scopes; rotate it soon"
        return Step(kind="api key", name=key_id, action=AdoptionAction.CONVERT, detail=detail, apply=convert)

    async def _run_step(self, runs: dict[str, Any], *, is_new: bool) -> Step:
        count = runs["state"]["messages"]
        if is_new or not await is_trust_decided(self._connection):
            detail = (
                f"{count} stored: all are trusted, although they may be unsigned. The first gateway signs "
                "those that have not ended"
            )
        else:
            detail = (
                f"{count} stored: it was decided which unsigned ones are trusted. Those that were stored "
                "later are listed and executed, but not queued again or rerun; `pyoco-server-admin "
                "nats-setup --sign-stored-runs` trusts all that are stored now"
            )
        return Step(kind="runs", name=self._config.runs_kv_bucket, action=AdoptionAction.KEEP, detail=detail)
