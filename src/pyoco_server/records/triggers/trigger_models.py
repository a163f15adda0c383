"""The records of what events start: workflow templates and actions."""

import re
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN, Count, FlowName, Tag

# What their keys begin with.
TEMPLATE_PREFIX: Final = "t"
ACTION_PREFIX: Final = "a"
CHAT_PREFIX: Final = "n"
TEMPLATE_ID_PATTERN: Final = TAG_PATTERN
TEMPLATE_ID_EXPECTED: Final = TAG_EXPECTED
ACTION_KEY_PATTERN: Final = r"^[A-Za-z0-9_-]{1,48}$(?!\n)"
ACTION_KEY_EXPECTED: Final = "expected 1 to 48 letters, digits, '_' or '-'"

TemplateId = Annotated[str, Meta(pattern=TEMPLATE_ID_PATTERN, description="1 to 64 letters, digits, _ or -.")]
TemplateName = Annotated[str, Meta(min_length=1, max_length=80)]
ActionKey = Annotated[str, Meta(pattern=ACTION_KEY_PATTERN, description="1 to 48 letters, digits, _ or -.")]
StepAction = Annotated[str, Meta(min_length=1, max_length=48)]

_TEMPLATE_ID: Final = re.compile(TEMPLATE_ID_PATTERN)
_ACTION_KEY: Final = re.compile(ACTION_KEY_PATTERN)


def is_template_id(text: str) -> bool:
    return _TEMPLATE_ID.fullmatch(text) is not None


def is_action_key(text: str) -> bool:
    return _ACTION_KEY.fullmatch(text) is not None


class TriggerKind(StrEnum):
    """What starts a step."""

    MANUAL_START = "manual_start"
    SCHEDULED = "scheduled"
    EXTERNAL_EVENT = "external_event"
    # Of all steps but the first.
    AFTER_PREVIOUS = "after_previous"


class ExecutionMode(StrEnum):
    MANUAL_CONFIRM = "manual_confirm"
    AUTO = "auto"


class TemplateOverlap(StrEnum):
    """What happens with an event while a run of the template is open."""

    ALLOW = "allow"
    # It is refused: 409.
    FORBID = "forbid"


class TemplateStep(Struct, kw_only=True, omit_defaults=True):
    """Only the action of the first step is executed, by an event; all else is kept for those who read it."""

    id: str
    title: str = ""
    action: str
    trigger_kind: TriggerKind
    execution_mode: ExecutionMode = ExecutionMode.MANUAL_CONFIRM
    timer_minutes: Count = 0


class TemplateRecord(Struct, kw_only=True, omit_defaults=True):
    """A workflow template: bucket `pyoco_triggers`, key `t.<tenant or =>.<id>`."""

    id: TemplateId
    name: str
    # 0: none.
    year: int = 0
    month: int = 0
    mfcloud_url: str = ""
    notes: str = ""
    steps: list[TemplateStep]
    overlap: TemplateOverlap = TemplateOverlap.ALLOW
    created_at: Timestamp
    updated_at: Timestamp
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def key(self) -> str:
        return template_key(self.tenant_id, self.id)

    @property
    def first(self) -> TemplateStep:
        return self.steps[0]

    @property
    def is_external(self) -> bool:
        """Whether events start it."""
        return self.first.trigger_kind is TriggerKind.EXTERNAL_EVENT


class FlowBinding(Struct, kw_only=True, omit_defaults=True):
    """What an action or a hook starts: the workers' flow of this name, or its own flow.yaml."""

    flow_name: FlowName
    workflow_yaml: str | None = None
    tag: Tag
    tags: list[str] = []
    # Fixed: they replace what an event has under these names.
    params: dict[str, Any] = {}
    timeout_sec: Seconds | None = None


class ActionRecord(Struct, kw_only=True, omit_defaults=True):
    """An action that templates name: bucket `pyoco_triggers`, key `a.<tenant or =>.<action key>`."""

    action_key: ActionKey
    binding: FlowBinding
    created_at: Timestamp
    updated_at: Timestamp
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def key(self) -> str:
        return action_key(self.tenant_id, self.action_key)


class ChatSettings(Struct, kw_only=True, omit_defaults=True):
    """The stored Google Chat webhook: bucket `pyoco_triggers`, key `n.<tenant or =>.google_chat`."""

    # Encrypted (triggers/secrets_at_rest.py); None: it was cleared.
    webhook: str | None
    updated_at: Timestamp
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def key(self) -> str:
        return chat_settings_key(self.tenant_id)


def template_key(tenant_id: str | None, template_id: str) -> str:
    return f"{TEMPLATE_PREFIX}.{tenant_id or NO_TENANT}.{template_id}"


def template_keys(tenant_id: str | None) -> str:
    """The pattern of the keys of all templates of a tenant."""
    return template_key(tenant_id, "*")


def action_key(tenant_id: str | None, key: str) -> str:
    return f"{ACTION_PREFIX}.{tenant_id or NO_TENANT}.{key}"


def chat_settings_key(tenant_id: str | None) -> str:
    return f"{CHAT_PREFIX}.{tenant_id or NO_TENANT}.google_chat"


decode_template = record_decoder(TemplateRecord)
decode_action = record_decoder(ActionRecord)
decode_chat_settings = record_decoder(ChatSettings)
