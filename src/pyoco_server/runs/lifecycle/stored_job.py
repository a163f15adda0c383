"""The job of a stored run: its snapshot, with the flow.yaml and large params that its journal has."""

from typing import Any

import msgspec
from msgspec import UNSET

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.records.runs.run_models import Job, RunSnapshot, job_of

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class DocumentLost(Exception):
    """The journal no longer has the flow.yaml or the params of the run."""


async def stored_job(journal: Journal, snapshot: RunSnapshot) -> Job:
    """The job as it was submitted; DocumentLost names what is missing."""
    source: str | None = None
    if snapshot.workflow_yaml_sha256 is not None:
        source = await _document(journal, snapshot, snapshot.workflow_yaml_sha256, "flow.yaml")
    job = job_of(snapshot, source)
    job.params = await whole_params(journal, snapshot)
    return job


async def whole_params(journal: Journal, snapshot: RunSnapshot) -> dict[str, Any]:
    """The params that the run was submitted with; DocumentLost if they were not in the snapshot."""
    if snapshot.params_sha256 is UNSET:
        return snapshot.params
    return _decode(await _document(journal, snapshot, snapshot.params_sha256, "file of params"))


async def _document(journal: Journal, snapshot: RunSnapshot, digest: str, name: str) -> str:
    found = await journal.document(snapshot.tag, snapshot.run_id, digest)
    if found is None:
        raise DocumentLost(name)
    return found
