"""Which stored jobs no consumer delivers any more."""

from typing import Any

import pytest

from pyoco_server.broker.queue.acked_jobs import ack_floors
from pyoco_server.broker.queue.queued_runs import QueueCount
from pyoco_server.config import NatsBackendConfig

CONFIG = NatsBackendConfig()


def subject(tag: str) -> str:
    return f"{CONFIG.work_subject_prefix}.{tag}"


def consumer(
    tag: str, floor: int, *, delivered: int | None = None, unacknowledged: int = 0, **options: Any
) -> dict[str, Any]:
    config = {"filter_subject": subject(tag), "ack_policy": "explicit", "ack_wait": 30_000_000_000}
    return {
        "name": tag,
        "config": config | options,
        "ack_floor": {"stream_seq": floor},
        "delivered": {"stream_seq": floor if delivered is None else delivered},
        "num_ack_pending": unacknowledged,
    }


def floors(first: int, *infos: dict[str, Any], jobs: dict[str, int]) -> dict[str, int]:
    counted = QueueCount("created", {subject(tag): count for tag, count in jobs.items()}, first)
    return ack_floors(CONFIG, counted, infos)


def test_each_tag_has_its_own_floor() -> None:
    infos = consumer("a", 20), consumer("b", 9), consumer("c", 10)
    assert floors(10, *infos, jobs={"a": 1, "b": 1, "c": 1}) == {subject("a"): 20, subject("c"): 10}


def test_a_tag_without_jobs_is_not_read() -> None:
    assert floors(10, consumer("a", 20), jobs={"b": 1}) == {}


def test_a_tag_without_a_consumer_has_no_floor() -> None:
    assert floors(10, jobs={"a": 1}) == {}


def test_a_consumer_that_was_created_again_delivers_everything_once_more() -> None:
    assert floors(10, consumer("a", 0), jobs={"a": 1}) == {}


def test_a_floor_that_was_lost_is_what_was_delivered_and_acknowledged() -> None:
    assert floors(10, consumer("a", 0, delivered=10), jobs={"a": 1}) == {subject("a"): 10}
    assert floors(10, consumer("a", 0, delivered=10, unacknowledged=1), jobs={"a": 1}) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"filter_subject": subject("*")},
        {"filter_subject": "", "filter_subjects": [subject("a"), subject("b")]},
        {"ack_policy": "all"},
    ],
    ids=["several tags", "several subjects", "acknowledges others"],
)
def test_a_consumer_that_is_not_of_one_tag_proves_nothing(options: dict[str, Any]) -> None:
    assert floors(10, consumer("a", 20, **options), jobs={"a": 1}) == {}
