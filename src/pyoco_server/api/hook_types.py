"""What the endpoints of hooks take and return."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.query_params import KnownRevision, NextCursor, PatchedRevision
from pyoco_server.api.run_types import Text
from pyoco_server.records.moments import TEN_YEARS_SEC
from pyoco_server.records.triggers.hook_models import (
    DeliveryStatus,
    DeliverySummary,
    HookId,
    HookKind,
    HookOverlap,
    SignatureOptions,
    VisibleHook,
)
from pyoco_server.records.value_types import Labels, NewFlowName, RunId, RunTimeout, Tag

HOOK_LIMIT_DEFAULT: Final = 50
HOOK_LIMIT_MAX: Final = 200
SECRET_MIN_CHARS: Final = 8
SECRET_MAX_CHARS: Final = 1024
MOST_MAPPED: Final = 100

_Source = Annotated[
    str,
    Meta(
        max_length=1000,
        description="A JSON pointer into the body (`/issue/number`; empty: the whole body), `header:NAME` "
        "or `query:NAME`.",
    ),
]
_ParamName = Annotated[str, Meta(min_length=1, max_length=200)]
_Map = Annotated[
    dict[_ParamName, _Source],
    Meta(
        max_length=MOST_MAPPED,
        description="Parameters of the run, and where each is in a delivery. A parameter whose source is "
        "missing is left out. Null: the whole body as the parameter `payload`.",
    ),
]
_Idempotency = Annotated[
    _Source,
    Meta(description="Where the id of a delivery is; deliveries without it are refused. Null: the sender's."),
]
_OnlyIf = Annotated[
    dict[_Source, Any],
    Meta(
        max_length=MOST_MAPPED,
        description="Sources, and the value that each must have; other deliveries are ignored.",
    ),
]
_Secret = Annotated[
    str,
    Meta(
        min_length=SECRET_MIN_CHARS,
        max_length=SECRET_MAX_CHARS,
        description="The secret that the sender uses. Default: the server makes one.",
    ),
]
_Note = Annotated[str, Meta(max_length=1000, description="For people.")]
_FlowYaml = Annotated[str, Meta(description="A flow.yaml to run; null: the workers' flow of this name.")]


class HookRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new hook: who may deliver, and what a delivery starts."""

    hook_id: HookId
    kind: HookKind
    secret: _Secret | None = None
    signature: SignatureOptions | None = None
    flow_name: NewFlowName
    workflow_yaml: _FlowYaml | None = None
    params: Annotated[dict[str, Any], Meta(description="Fixed parameters, beside the mapped ones.")] = {}
    tag: Tag | None = None
    tags: Labels | None = None
    timeout_sec: RunTimeout | None = None
    map: _Map | None = None
    idempotency: _Idempotency | None = None
    only_if: _OnlyIf = {}
    overlap: HookOverlap = HookOverlap.ALLOW
    note: _Note = ""


class HookPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields that change; the others stay. The kind and the secret stay: see rotate."""

    revision: PatchedRevision = UNSET
    signature: SignatureOptions | UnsetType | None = UNSET
    flow_name: NewFlowName | UnsetType = UNSET
    workflow_yaml: _FlowYaml | UnsetType | None = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    tag: Tag | UnsetType | None = UNSET
    tags: Labels | UnsetType | None = UNSET
    timeout_sec: RunTimeout | UnsetType | None = UNSET
    map: _Map | UnsetType | None = UNSET
    idempotency: _Idempotency | UnsetType | None = UNSET
    only_if: _OnlyIf | UnsetType = UNSET
    overlap: HookOverlap | UnsetType = UNSET
    note: _Note | UnsetType = UNSET


class SecretView(Struct, kw_only=True):
    """One of the valid secrets, without the secret itself."""

    secret_id: str
    created_at: float
    # When it ends; null: it is the current one, or is valid until the rotation is finished.
    expires_at: float | None


class SignatureView(SignatureOptions, kw_only=True, omit_defaults=False, frozen=True):
    """Where the proof is, with all fields."""


class HookView(VisibleHook, kw_only=True, omit_defaults=False):
    """A hook, without its secrets."""

    signature: SignatureView
    # The newest first; two while a rotation is under way.
    secrets: list[SecretView]
    # Where to send deliveries: below the gateway's address, and whole if PYOCO_PUBLIC_URL is set.
    path: str
    url: str | None
    # Where to publish messages; of the kind `nats`.
    subject: str | None


class HookWithSecret(HookView, kw_only=True, omit_defaults=False):
    """A hook and its new secret, which is shown this once."""

    # Null: of the kind `nats`, which has none.
    secret: str | None


class HookTenantQuery(Struct, kw_only=True):
    """Whose hook it is."""

    tenant: Annotated[
        Text | UnsetType,
        Meta(description="For operators: the tenant of the hook, `=` for none. Default: the key's own."),
    ] = UNSET


class DeleteHookQuery(HookTenantQuery, kw_only=True):
    """Which revision is deleted."""

    revision: KnownRevision = UNSET


class HookListQuery(Struct, kw_only=True):
    """Which hooks are listed."""

    kind: Annotated[HookKind | UnsetType, Meta(description="Of this kind.")] = UNSET
    flow: Annotated[Text | UnsetType, Meta(description="Of this flow.")] = UNSET
    q: Annotated[
        Text | UnsetType,
        Meta(description="Anywhere in id, flow name, labels (`tags`) or note; the case does not matter."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=HOOK_LIMIT_MAX, description="How many at most.")] = HOOK_LIMIT_DEFAULT
    cursor: NextCursor = UNSET


class HookPage(Struct, kw_only=True):
    """One page of a list of hooks, in the order of their ids."""

    items: list[HookView]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int


class HookDeleted(Struct, kw_only=True):
    """The hook is deleted, with its deliveries; its runs stay."""

    hook_id: str
    deleted: bool = True


class RotateRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new secret."""

    secret: _Secret | None = None
    keep_sec: Annotated[
        Annotated[float, Meta(ge=0, le=TEN_YEARS_SEC)] | None,
        Meta(
            description="How long the old secret stays valid, in seconds; 0: it ends now. Null: until the "
            "rotation is finished.",
        ),
    ] = None


class SampleDelivery(Struct, kw_only=True, forbid_unknown_fields=True):
    """A delivery that starts nothing, and needs no signature."""

    body: Any = None
    headers: dict[str, str] = {}
    query: dict[str, str] = {}


class MappingProblem(Struct, kw_only=True):
    field: str
    message: str


class TestedDelivery(Struct, kw_only=True):
    """What a delivery would start."""

    # Whether it would start a run.
    matched: bool
    # Why it would be ignored: `only_if`, or `ping` of a new webhook at GitHub; None: it would not be.
    reason: Literal["only_if", "ping"] | None
    # Of the run: the fixed ones, and those that were mapped.
    params: dict[str, Any]
    # Parameters whose source the delivery does not have.
    missing: list[str]
    # None: each delivery would start a run.
    idempotency_key: str | None
    # Why it would be refused; empty: it would not.
    problems: list[MappingProblem]
    flow_name: str
    tag: str


class ReceiveQuery(Struct, kw_only=True):
    """The query of a delivery; `map` can name other parameters of it."""

    token: Annotated[
        str | UnsetType, Meta(description="The token of a hook of the kind `token`; better in a header.")
    ] = UNSET


class DeliveryAccepted(Struct, kw_only=True, omit_defaults=True):
    """The answer to a sender."""

    # Null: no run was started; `reason` says why.
    run_id: RunId | None
    # Whether an earlier delivery has started it.
    duplicate: bool
    # `only_if`, `ping` or `overlap`.
    reason: str | UnsetType = UNSET


class DeliveryListQuery(HookTenantQuery, kw_only=True):
    """Which deliveries are listed."""

    status: Annotated[DeliveryStatus | UnsetType, Meta(description="With this status.")] = UNSET
    limit: Annotated[int, Meta(ge=1, le=HOOK_LIMIT_MAX, description="How many at most.")] = HOOK_LIMIT_DEFAULT
    cursor: NextCursor = UNSET


class DeliveryItem(DeliverySummary, kw_only=True, omit_defaults=False):
    """One delivery in a list."""

    delivery_id: int


class DeliveryPage(Struct, kw_only=True):
    """One page of the kept deliveries, the newest first."""

    items: list[DeliveryItem]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int


class DeliveryView(DeliveryItem, kw_only=True, omit_defaults=False):
    """One delivery, with what was sent and what was answered; without secrets."""

    headers: dict[str, str]
    query: dict[str, str]
    # As text, or in base64 if it is not UTF-8. Null: it was too large to be kept, or the proof was wrong.
    body: str | None
    body_is_base64: bool
    # Of the run that it started.
    params: dict[str, Any]
    # The body of the answer.
    answer: str


class RedeliverRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Process a kept delivery again, with the hook as it is now."""

    new_run: Annotated[
        bool,
        Meta(
            description="Start another run, although this delivery has started one. Default: it is answered "
            "as a duplicate then."
        ),
    ] = False


class Redelivered(DeliveryAccepted, kw_only=True, omit_defaults=True):
    """What became of it."""

    status: DeliveryStatus
