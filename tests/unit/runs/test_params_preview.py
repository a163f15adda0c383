"""What a snapshot shows of params that are too large for it."""

import json
from hashlib import sha256
from typing import Any

from pyoco_server.records.runs.params_preview import params_preview
from pyoco_server.records.runs.run_models import Job, decode_job, encode, pending_snapshot
from pyoco_server.runs.lifecycle.job_signatures import signature_of
from pyoco_server.runs.lifecycle.submission import new_job

SECRET = b"s" * 32


def test_short_values_stay_and_long_ones_have_their_size_and_beginning() -> None:
    shown = params_preview({"name": "day", "rows": [{"id": 1}] * 1000, "count": 3})
    assert (shown["name"], shown["count"]) == ("day", 3)
    assert shown["rows"]["truncated"] is True
    assert shown["rows"]["bytes"] == len(json.dumps([{"id": 1}] * 1000, separators=(",", ":")))
    assert shown["rows"]["preview"].startswith('[{"id":1},{"id":1}')


def test_it_is_small_whatever_the_params_are() -> None:
    worst: list[dict[str, Any]] = [
        {str(number): "x" * 1000 for number in range(1000)},
        {"k" * 100_000: 1},
        {"text": "あ" * 100_000},
        {str(number): number for number in range(100_000)},
    ]
    for params in worst:
        assert len(encode(params_preview(params))) < 16_000


def large_job() -> Job:
    params = {"rows": [{"id": number, "share": 0.1, "text": "あ"} for number in range(5000)], "last": 1}
    job = new_job(flow_name="f", tag="t", params=params)
    job.params_sha256, job.params_bytes = sha256(encode(params)).hexdigest(), len(encode(params))
    return job


def test_gateway_and_worker_build_the_same_snapshot_from_a_job() -> None:
    job = large_job()
    received = decode_job(encode(job))
    assert received.params == job.params, "the job has all of them"
    assert encode(pending_snapshot(received)) == encode(pending_snapshot(job))
    assert len(encode(pending_snapshot(job))) < 16_000


def test_the_signature_covers_the_digest_of_large_params() -> None:
    snapshot = pending_snapshot(large_job())
    signature = signature_of(snapshot, SECRET)
    snapshot.params_sha256 = "0" * 64
    assert signature_of(snapshot, SECRET) != signature
