"""The records of signals, which are sent to one run, and of events, which are sent to all runs."""

from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import RunId, is_tag
from pyoco_server.records.waits.wait_models import TOPIC_EXPECTED, TOPIC_PATTERN, Actor

EVENT_ID_PATTERN: Final = r"^[\x21-\x7e]{1,255}$(?!\n)"
EVENT_ID_EXPECTED: Final = "expected 1 to 255 visible ASCII characters, such as a UUID"

# The name of a signal or an event.
Topic = Annotated[str, Meta(pattern=TOPIC_PATTERN, description=TOPIC_EXPECTED)]
EventId = Annotated[
    str, Meta(pattern=EVENT_ID_PATTERN, description="1 to 255 visible ASCII characters, such as a UUID.")
]

_DIGEST_CHARS: Final = 32


class Signal(Struct, kw_only=True, omit_defaults=True):
    """One signal in the mailbox of its run."""

    signal_id: str
    name: str
    at: Timestamp
    # Left out once it was received: the wait has it.
    data: Any = None
    by: Actor | None = None
    # The wait that receives it, or has received it.
    taken_by: str | None = None
    # Whether `data` was left out.
    trimmed: bool = False
    # The digest of the request with an Idempotency-Key.
    request: str | None = None


class Mailbox(Struct, kw_only=True, omit_defaults=True):
    """The signals of a run, in the order in which they were sent: bucket `pyoco_signals`, key `<run_id>`."""

    run_id: RunId
    signals: list[Signal] = []
    # How many received ones were removed.
    removed: int = 0


class EventRecord(Struct, kw_only=True, omit_defaults=True):
    """One message of `<event prefix>.<tenant>.<digest of the name>.<digest of the id>`."""

    event_id: str
    name: str
    at: Timestamp
    data: Any = None
    tenant_id: str | None = None
    by: Actor | None = None


def topic_subject(tenant_id: str | None, name: str) -> str:
    """The part of a subject that all events of a name share; names may be no token of a subject."""
    return f"{NO_TENANT if tenant_id is None else _tenant_token(tenant_id)}.{digest_token(name)}"


def _tenant_token(tenant_id: str) -> str:
    return tenant_id if is_tag(tenant_id) else digest_token(tenant_id)


def digest_token(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


encode = msgspec.json.Encoder().encode
decode_mailbox = record_decoder(Mailbox)
decode_event = record_decoder(EventRecord)
