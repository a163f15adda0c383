"""Which options of existing streams and consumers this version needs to be otherwise."""

from typing import Any

import pytest
from nats.js.api import StreamConfig

from pyoco_server.broker.jetstream.stream_options import differences
from pyoco_server.broker.queue.tag_consumers import _covers, problem_with, tag_of
from pyoco_server.broker.streams_and_buckets import resources
from pyoco_server.config import NatsBackendConfig

CONFIG = NatsBackendConfig(load_dotenv=False)
STREAMS = {str(stream.name): stream for stream in resources(CONFIG)}


def made(stream: StreamConfig, **changes: Any) -> dict[str, Any]:
    """As the server returns it."""
    return {"retention": "limits", **stream.as_dict(), **changes}


@pytest.mark.parametrize("name", STREAMS)
def test_what_this_version_creates_needs_no_change(name: str) -> None:
    assert differences(STREAMS[name], made(STREAMS[name])) == []


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        (
            "KV_pyoco_runs",
            {"allow_direct": False},
            "KV_pyoco_runs: `allow_direct` is false, expected true",
        ),
        ("KV_pyoco_workers", {"max_age": 15_000_000_000}, "`max_age` is 15000000000, expected 0"),
        ("KV_pyoco_auth", {"allow_rollup_hdrs": True}, "`allow_rollup_hdrs` is true, expected false"),
        ("OBJ_pyoco_wheels", {"allow_rollup_hdrs": False}, "`allow_rollup_hdrs` is false, expected true"),
        ("PYOCO_WORK", {"retention": "limits"}, "`retention` is limits, expected workqueue"),
        (
            "PYOCO_EVENTS_IN",
            {"duplicate_window": 120_000_000_000},
            "`duplicate_window` is 120000000000, expected 100000000",
        ),
        ("PYOCO_DLQ", {"sealed": True}, "`sealed` is true, expected false"),
        (
            "PYOCO_JOURNAL",
            {"subjects": ["pyoco.journal.*", "mine"]},
            "is pyoco.journal.*, mine, expected pyoco.journal.>, mine",
        ),
    ],
)
def test_each_option_that_matters_is_named(name: str, changes: dict[str, Any], says: str) -> None:
    (found,) = differences(STREAMS[name], made(STREAMS[name], **changes))
    assert says in str(found)
    assert found.changeable == (found.option not in ("retention", "sealed"))


def test_other_options_stay_as_they_are() -> None:
    changes = {"max_bytes": 1, "num_replicas": 3, "description": "mine", "duplicate_window": 1}
    # A longer history of a bucket is the operator's choice.
    changes["max_msgs_per_subject"] = 64
    assert differences(STREAMS["KV_pyoco_runs"], made(STREAMS["KV_pyoco_runs"], **changes)) == []


def consumer(**options: Any) -> dict[str, Any]:
    usual = {"filter_subject": "pyoco.work.gpu", "ack_policy": "explicit", "ack_wait": 30_000_000_000}
    return {"name": "pyoco_workers_gpu", "config": usual | options}


def test_a_consumer_of_another_name_can_be_used() -> None:
    assert problem_with(CONFIG, consumer()) == ""
    assert tag_of(CONFIG, consumer()) == "gpu"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filter_subject": "pyoco.work.>"}, "takes the jobs of pyoco.work.>"),
        ({"filter_subject": ""}, "takes the jobs of >"),
        ({"filter_subjects": ["pyoco.work.a", "pyoco.work.b"]}, "of pyoco.work.a, pyoco.work.b"),
        ({"deliver_subject": "inbox"}, "is a push consumer"),
        ({"ack_policy": "none"}, "has the `ack_policy` none; expected explicit"),
        ({"ack_wait": 200_000_000}, "has an AckWait of 0.2 s; expected at least 1 s"),
    ],
)
def test_a_consumer_that_no_worker_can_use_is_named(options: dict[str, Any], says: str) -> None:
    problem = problem_with(CONFIG, consumer(**options))
    assert "the consumer pyoco_workers_gpu of the stream PYOCO_WORK" in problem
    assert says in problem


@pytest.mark.parametrize(
    ("pattern", "covers"),
    [
        (">", True),
        ("pyoco.>", True),
        ("pyoco.work.*", True),
        ("*.work.gpu", True),
        ("pyoco.work.gpu", True),
        ("pyoco.work.gpu.>", False),
        ("pyoco.work.cpu", False),
        ("pyoco.*", False),
        ("other.>", False),
    ],
)
def test_subjects_that_a_consumer_covers(pattern: str, covers: bool) -> None:
    assert _covers(pattern, "pyoco.work.gpu") is covers
