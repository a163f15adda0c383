"""What a task returned, as its record in a snapshot has it: the value itself, or where it is stored."""

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.value_types import Count

BYTES: Final = "bytes"
JSON: Final = "json"


class StoredOutput(Struct, kw_only=True, frozen=True):
    """A value that is an object of the run (broker/stores/runs/run_object_store.py)."""

    name: Annotated[str, Meta(max_length=200)]
    bytes: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class OutputRecord(Struct, kw_only=True):
    """The fields of a task's record that are about what it returned."""

    state: str = ""
    ended_at: float | None = None
    # The tasks before it.
    after: list[str] = []
    # JSON; of bytes their base64, of a long value its size and beginning.
    output: Raw = Raw(b"")
    # `bytes`, where it is not JSON.
    output_type: str = JSON
    # Where a long value is stored whole, or why it is not.
    output_object: StoredOutput | None = None
    output_cut: str | None = None
    # The fields that were cut.
    truncated: list[str] = []


class CutValue(Struct, kw_only=True):
    """What a record has in place of a long value."""

    bytes: Count = 0
    preview: str = ""


decode_output: Final = record_decoder(OutputRecord, whole=False)
decode_cut_value: Final = record_decoder(CutValue, whole=False)
