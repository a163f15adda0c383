"""The records of hooks: what a delivery of a sender starts, its secrets, and what became of deliveries."""

import re
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN, Count, FlowName, RunId, Tag

HOOK_ID_PATTERN: Final = TAG_PATTERN
HOOK_ID_EXPECTED: Final = TAG_EXPECTED
HookId = Annotated[str, Meta(pattern=HOOK_ID_PATTERN, description="1 to 64 letters, digits, _ or -.")]
_HOOK_ID: Final = re.compile(HOOK_ID_PATTERN)
# The first part of the keys of hooks in the bucket.
HOOK_PREFIX: Final = "h"


def is_hook_id(text: str) -> bool:
    return _HOOK_ID.fullmatch(text) is not None


def hook_key(tenant_id: str | None, hook_id: str) -> str:
    """The key of its record in the bucket."""
    return f"{HOOK_PREFIX}.{tenant_id or NO_TENANT}.{hook_id}"


class HookKind(StrEnum):
    """How a sender proves that a delivery is its own."""

    TOKEN = "token"  # noqa: S105 - not a password
    GITHUB = "github"
    STRIPE = "stripe"
    STANDARD_WEBHOOKS = "standard-webhooks"
    HMAC = "hmac"
    # Messages on a NATS subject: the rights of the NATS user are the proof.
    NATS = "nats"


class HookOverlap(StrEnum):
    """What happens with a delivery while an earlier run of the hook is open."""

    ALLOW = "allow"
    # Accept the delivery, and start nothing.
    SKIP = "skip"
    # Refuse it with a 409, so that the sender repeats it.
    REJECT = "reject"


class HashAlgorithm(StrEnum):
    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


class SignatureEncoding(StrEnum):
    HEX = "hex"
    BASE64 = "base64"


HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{0,100}$(?!\n)")]


class SignatureOptions(Struct, kw_only=True, omit_defaults=True, frozen=True, forbid_unknown_fields=True):
    """Where the proof is: of the kinds `hmac`, and `token` for its header."""

    header: Annotated[
        HeaderName,
        Meta(description="The header with the signature, or with the token. hmac: X-Signature by default."),
    ] = ""
    algorithm: HashAlgorithm = HashAlgorithm.SHA256
    encoding: SignatureEncoding = SignatureEncoding.HEX
    prefix: Annotated[str, Meta(max_length=40, description="Before each signature, such as `sha256=`.")] = ""
    timestamp_header: Annotated[
        HeaderName, Meta(description="The header with the time in unix seconds; it is then signed as well.")
    ] = ""
    signed_text: Annotated[
        str,
        Meta(
            max_length=200,
            description="What is signed, from `{timestamp}` and `{body}`. Default: `{body}`, and with a "
            "timestamp header `{timestamp}.{body}`.",
        ),
    ] = ""


class HookSecret(Struct, kw_only=True, omit_defaults=True):
    """One of the valid secrets of a hook."""

    secret_id: str
    # Under a key of the installation (triggers/secrets_at_rest.py).
    encrypted: str
    created_at: Timestamp
    # Of one that was replaced; None: it is valid until the rotation is finished.
    expires_at: Timestamp | None = None


class VisibleHook(Struct, kw_only=True, omit_defaults=True):
    """What callers see of a hook."""

    hook_id: HookId
    # Of this hook and no other, also not of an earlier one with this id: run ids follow from it.
    incarnation: str
    tenant_id: str | None = None
    # The key of the last change.
    api_key_id: str | None = None
    created_at: Timestamp
    updated_at: Timestamp
    revision: Count = 1
    kind: HookKind
    signature: SignatureOptions = SignatureOptions()
    # What to run.
    flow_name: FlowName
    workflow_yaml: str | None = None
    params: dict[str, Any] = {}
    tag: Tag = "default"
    tags: list[str] = []
    timeout_sec: Seconds | None = None
    # Of each parameter its source; None: the whole body is the parameter `payload`.
    map: dict[str, str] | None = None
    # The source of the idempotency key; None: the sender's own delivery id.
    idempotency: str | None = None
    # Sources and the values that they must have.
    only_if: dict[str, Any] = {}
    overlap: HookOverlap = HookOverlap.ALLOW
    note: str = ""


class HookRecord(VisibleHook, kw_only=True, omit_defaults=True):
    """One hook: bucket `pyoco_triggers`, key `h.<tenant or =>.<hook_id>`."""

    # The newest first: at most two.
    secrets: list[HookSecret] = []

    @property
    def key(self) -> str:
        return hook_key(self.tenant_id, self.hook_id)

    @property
    def owner(self) -> str:
        """What starts its runs: never the same for a later hook of this id."""
        return f"hook:{self.hook_id}:{self.incarnation}"

    @property
    def cause_id(self) -> str:
        return f"hook:{self.hook_id}"


class DeliveryStatus(OpenStrEnum):
    """What became of a delivery."""

    STARTED = "started"
    # A delivery with the same idempotency key has started the run.
    DUPLICATE = "duplicate"
    # `only_if` does not match, or it is the ping of a new webhook.
    IGNORED = "ignored"
    # An earlier run of the hook is open, and its `overlap` is `skip`: no run is started for it.
    SKIPPED = "skipped"
    # An earlier run of the hook is open, and its `overlap` is `reject`: the sender, or NATS, repeats it.
    REJECTED = "rejected"
    # Its proof is missing or wrong, or it cannot be mapped.
    REFUSED = "refused"
    # The run could not be stored: the sender has to repeat it.
    FAILED = "failed"


class DeliverySummary(Struct, kw_only=True, omit_defaults=True):
    """One delivery in a list: the header of its message in the stream."""

    at: Timestamp
    status: DeliveryStatus
    # Of the answer; None: it came over NATS.
    http_status: int | None = None
    run_id: RunId | None = None
    # Why no run was started, in one word and in a sentence.
    reason: str | None = None
    detail: str | None = None
    # Shortened.
    idempotency_key: str | None = None
    body_bytes: Count = 0
    client_ip: str | None = None
    # Of which earlier delivery this is a repetition.
    redelivery_of: Count | None = None
    # How many in a row: of refused ones, which are not kept each.
    count: Count = 1
    # Parameters whose source the delivery does not have.
    missing: list[str] = []


class DeliveryContent(Struct, kw_only=True, omit_defaults=True):
    """What the sender has sent, without secrets; and the answer."""

    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    # None: it was larger than what is kept.
    body: bytes | None = b""
    params: dict[str, Any] = {}
    answer: str = ""
    # Under which it was processed, if the sender names none.
    default_key: str = ""


decode_hook = record_decoder(HookRecord)
encode_delivery = msgspec.json.Encoder().encode
decode_summary = record_decoder(DeliverySummary)
decode_content = record_decoder(DeliveryContent)
