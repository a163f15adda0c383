"""Options of existing streams and buckets: which of them this version has to change.

A stream may be of an earlier version, of the public package pyoco-server, or created by hand. Options that
this version does not depend on stay as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from nats.js.api import StreamConfig

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api

# JetStream drops a second message with a `Nats-Msg-Id` for at least so long, on any subject of the stream.
SHORTEST_WINDOW_SEC: Final = 0.1

_BUCKET: Final = "KV_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One option of an existing stream."""

    stream: str
    option: str
    found: object
    expected: object
    why: str
    # Without the change this version cannot use the stream.
    needed: bool = True
    # Whether JetStream can change it.
    changeable: bool = True

    def __str__(self) -> str:
        return f"{self.stream}: `{self.option}` is {_shown(self.found)}, expected {_shown(self.expected)}"


def differences(expected: StreamConfig, found: dict[str, Any]) -> list[Difference]:
    return list(_differences(expected, found))


async def change(
    connection: Connection, found: dict[str, Any], changes: Iterable[Difference]
) -> dict[str, Any]:
    """Apply the changes; return the new configuration. ApiRefused or NatsUnavailable if that failed."""
    changed = {**found, **{each.option: each.expected for each in changes}}
    info = await jetstream_api.call(connection, f"STREAM.UPDATE.{found['name']}", changed)
    return dict(info["config"])


def _differences(expected: StreamConfig, found: dict[str, Any]) -> Iterator[Difference]:
    stream = str(expected.name)
    retention = expected.retention.value if expected.retention else "limits"
    if found.get("retention") != retention:
        why = "a job must leave the queue when it is acknowledged, and nothing else may be removed before"
        yield Difference(
            stream=stream,
            option="retention",
            found=found.get("retention"),
            expected=retention,
            why=why,
            changeable=False,
        )
    if found.get("sealed"):
        why = "nothing can be written to a sealed stream"
        yield Difference(
            stream=stream, option="sealed", found=True, expected=False, why=why, changeable=False
        )
    yield from _subjects(expected, found, stream)
    if not found.get("allow_direct"):
        why = "it is read with direct reads"
        yield Difference(stream=stream, option="allow_direct", found=False, expected=True, why=why)
    yield from _rollup(expected, found, stream)
    yield from _duplicate_window(expected, found, stream)
    if stream.startswith(_BUCKET):
        yield from _bucket(expected, found, stream)


def _subjects(expected: StreamConfig, found: dict[str, Any], stream: str) -> Iterator[Difference]:
    stored, needed = found.get("subjects") or [], expected.subjects or []
    if missing := [subject for subject in needed if subject not in stored]:
        # JetStream refuses subjects that overlap.
        covering = tuple(subject.removesuffix(">") for subject in needed if subject.endswith(".>"))
        others = [subject for subject in stored if subject not in needed and not subject.startswith(covering)]
        yield Difference(
            stream=stream,
            option="subjects",
            found=stored,
            expected=[*needed, *others],
            why=f"records of {', '.join(missing)} would not be stored",
        )


def _rollup(expected: StreamConfig, found: dict[str, Any], stream: str) -> Iterator[Difference]:
    allowed, needed = bool(found.get("allow_rollup_hdrs")), bool(expected.allow_rollup_hdrs)
    if allowed == needed:
        return
    if needed:
        why = "an object is replaced with `Nats-Rollup`"
    else:
        why = "anyone who may write a record of it can erase it (Nats-Rollup)"
    yield Difference(
        stream=stream, option="allow_rollup_hdrs", found=allowed, expected=needed, why=why, needed=needed
    )


def _duplicate_window(expected: StreamConfig, found: dict[str, Any], stream: str) -> Iterator[Difference]:
    window_ns = int(SHORTEST_WINDOW_SEC * 1e9)
    if expected.duplicate_window == SHORTEST_WINDOW_SEC and found.get("duplicate_window", 0) > window_ns:
        yield Difference(
            stream=stream,
            option="duplicate_window",
            found=found["duplicate_window"],
            expected=window_ns,
            why="a message whose Nats-Msg-Id was used on another subject would be dropped",
            needed=False,
        )


def _bucket(expected: StreamConfig, found: dict[str, Any], stream: str) -> Iterator[Difference]:
    if found.get("max_age") and not expected.max_age:
        why = f"its records would disappear {found['max_age'] / 1e9:g} s after they are written"
        yield Difference(
            stream=stream, option="max_age", found=found["max_age"], expected=0, why=why, needed=False
        )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
