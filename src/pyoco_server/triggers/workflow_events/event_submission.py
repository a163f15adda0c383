"""What was sent as a workflow event: its fields under all their names, and the fingerprint of its payload."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec

from pyoco_server.records.triggers.trigger_models import TemplateRecord
from pyoco_server.records.triggers.workflow_event_models import EventInput

DEFAULT_SOURCE: Final = "webhook"
# A number that cannot be a year or a month, and is not left out either.
_INVALID: Final = -1
_NAME_CHARS: Final = 80
# One more than an id may have: a longer one, which is shortened, is that of no template.
_ID_CHARS: Final = 65
_KEY: Final = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
_KEY_NAMES: Final = ("idempotency_key", "idempotencyKey", "event_id", "eventId")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_MAX_NUMBER: Final = 10**9
# In place of an id or a name of another JSON type: no template has it, and it is not left out either.
_NOT_A_TEXT: Final = "(not a text)"


@dataclass(frozen=True, slots=True)
class WorkflowEventSubmission:
    # As it was given; None: not given.
    template_id: str | None
    idempotency_key: str | None
    event: EventInput
    fingerprint: str

    @property
    def event_name(self) -> str | None:
        return self.event.event_name


def read_event(body: Mapping[str, Any], header_key: str | None = None) -> WorkflowEventSubmission:
    """`header_key` is the header `x-idempotency-key`."""
    year, month = _pair(body)
    event = EventInput(
        event_name=_first_name(body, "event_name", "eventName", max_chars=_NAME_CHARS),
        source=_first_text(body, "source", "event_source", max_chars=_NAME_CHARS) or DEFAULT_SOURCE,
        year=year,
        month=month,
        mfcloud_url=_first_text(body, "mfcloud_url") or "",
        notes=_first_text(body, "notes") or "",
        payload=body.get("payload"),
    )
    template_id = _first_name(body, "template_id", "templateId", max_chars=_ID_CHARS)
    return WorkflowEventSubmission(
        template_id, _idempotency_key(body, header_key), event, _fingerprint(event)
    )


def with_template_defaults(event: EventInput, template: TemplateRecord) -> EventInput:
    """With the month, URL and notes of the template where the event has none."""
    given = (event.year, event.month)
    year, month = given if all(given) else (template.year, template.month)
    return msgspec.structs.replace(
        event,
        year=year,
        month=month,
        mfcloud_url=event.mfcloud_url or template.mfcloud_url,
        notes=event.notes or template.notes,
    )


def params_of(event: EventInput) -> dict[str, Any]:
    """The params of the run that it starts."""
    return {name: getattr(event, name) for name in EventInput.__struct_fields__}


def _first_text(body: Mapping[str, Any], *names: str, max_chars: int | None = None) -> str | None:
    """The first of these fields that is not blank."""
    for name in names:
        if text := _text(body.get(name)):
            return text[:max_chars]
    return None


def _first_name(body: Mapping[str, Any], *names: str, max_chars: int | None = None) -> str | None:
    """The same of a field that says which template is meant: a value of another type means none."""
    for name in names:
        value = body.get(name)
        if value is not None and not _is_text(value):
            return _NOT_A_TEXT
        if text := _text(value):
            return text[:max_chars]
    return None


def _is_text(value: Any) -> bool:
    """Numbers are texts too."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """Without the space around it; what is no text is blank."""
    return str(value).strip() if _is_text(value) else ""


def _idempotency_key(body: Mapping[str, Any], header_key: str | None) -> str | None:
    """The first valid one; an invalid one counts as none."""
    given = (*(body.get(name) for name in _KEY_NAMES), header_key)
    return next((text for text in map(_text, given) if _KEY.fullmatch(text)), None)


def _pair(body: Mapping[str, Any]) -> tuple[int, int]:
    """Year and month; none if one of them is left out."""
    year, month = _number(body.get("year")), _number(body.get("month"))
    return (year, month) if year and month else (0, 0)


def _number(value: Any) -> int:
    if value is None or value == "" or value is False:
        return 0
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MAX_NUMBER:
        return _INVALID
    return int(value) if value == int(value) else _INVALID


def _fingerprint(event: EventInput) -> str:
    return sha256(msgspec.json.encode(event, order="deterministic")).hexdigest()
