"""What workers say about their flows: one catalogue for all that have the same code."""

from hashlib import sha256
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.value_types import FlowName

NOT_KNOWN: Final = Raw(b"null")
# What a gateway keeps in memory for all workers with the same code.
MAX_CATALOGUE_BYTES: Final = 4 * 1024 * 1024


class TaskDescription(Struct, kw_only=True, omit_defaults=True):
    name: str
    description: str = ""
    # The tasks directly before it.
    after: list[str] = []


class FlowDescription(Struct, kw_only=True, omit_defaults=True):
    name: FlowName
    description: str = ""
    # In the worker's folder of flows.
    file: str = ""
    tasks: list[TaskDescription] = []
    # The JSON Schema of its params, encoded; null: not known, and `problem` says why.
    parameters: Raw = NOT_KNOWN
    problem: str | None = None

    @property
    def has_parameters(self) -> bool:
        return bytes(self.parameters) != b"null"


class FlowCatalogue(Struct, kw_only=True, omit_defaults=True):
    """The flows of a worker: bucket `pyoco_flows`, keys `<digest>.<part>`."""

    # The digest of the code: the files of the folder, and the installed wheels.
    version: str
    flows: list[FlowDescription] = []


class SubmitWarning(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Why an accepted run may wait for a worker, or fail."""

    # No live worker of the tag has the flow; the tag has none; a param does not match the schema.
    code: Literal["flow_unknown", "no_worker", "params_invalid"]
    message: str
    # Such as `params.order.lines[0]`.
    field: str | UnsetType = UNSET


encode_catalogue = msgspec.json.Encoder().encode
decode_catalogue = record_decoder(FlowCatalogue)


def catalogue_digest(encoded: bytes) -> str:
    return sha256(encoded).hexdigest()
