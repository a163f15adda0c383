"""What a delivery becomes: the parameters of a run, its idempotency key, and whether it is wanted at all.

A source is a JSON pointer into the body, `header:NAME` or `query:NAME`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.json_pointers import ABSENT, equal, is_pointer, value_at
from pyoco_server.records.nesting import MAX_INPUT_NESTING, is_nested_deeper
from pyoco_server.records.triggers.hook_models import HookKind, HookRecord
from pyoco_server.triggers.hooks.signatures import Incoming

# The parameter of a hook without a map.
WHOLE_BODY: Final = "payload"
SOURCE_EXPECTED: Final = "expected a JSON pointer such as /issue/number, `header:NAME` or `query:NAME`"

_HEADER: Final = "header:"
_QUERY: Final = "query:"
_FORM: Final = "application/x-www-form-urlencoded"
# Where senders put the id of a delivery; the first that is there.
_DELIVERY_IDS: Final[Mapping[HookKind, tuple[str, ...]]] = {
    HookKind.TOKEN: ("header:idempotency-key", "header:x-idempotency-key"),
    HookKind.GITHUB: ("header:x-github-delivery",),
    HookKind.STRIPE: ("/id",),
    HookKind.STANDARD_WEBHOOKS: ("header:webhook-id", "header:svix-id"),
    HookKind.HMAC: ("header:idempotency-key", "header:x-idempotency-key"),
    # JetStream itself drops a second message with a Nats-Msg-Id for a moment, also one for another hook.
    HookKind.NATS: ("header:idempotency-key", "header:x-idempotency-key", "header:nats-msg-id"),
}


@dataclass(frozen=True, slots=True)
class MappedDelivery:
    # Of the run, without the fixed ones of the hook.
    params: dict[str, Any]
    # Parameters whose source the delivery does not have.
    missing: list[str]
    # None: the sender does not name its deliveries.
    key: str | None
    # Why it starts nothing: `only_if` or `ping`; None: it does.
    ignored: Literal["only_if", "ping"] | None = None


def is_source(text: str) -> bool:
    for prefix in (_HEADER, _QUERY):
        if text.startswith(prefix):
            return bool(text.removeprefix(prefix).strip())
    return is_pointer(text)


def sources_of(hook: HookRecord) -> list[str]:
    """Everything that it reads of a delivery, without the sender's own delivery id."""
    return [*(hook.map or {}).values(), *hook.only_if, *filter(None, [hook.idempotency])]


def mapped(hook: HookRecord, delivery: Incoming) -> MappedDelivery:
    """InvalidRequest if the body cannot be read, or the configured idempotency key is missing."""
    reader = _SourceReader(hook, delivery)
    if hook.kind is HookKind.GITHUB and delivery.headers.get("x-github-event") == "ping":
        return MappedDelivery({}, [], None, ignored="ping")
    sources = {WHOLE_BODY: ""} if hook.map is None else hook.map
    params = {name: reader.value(source) for name, source in sources.items()}
    is_wanted = all(equal(reader.value(source), expected) for source, expected in hook.only_if.items())
    return MappedDelivery(
        {name: value for name, value in params.items() if value is not ABSENT},
        [name for name, value in params.items() if value is ABSENT],
        _key(hook, reader) if is_wanted else None,
        ignored=None if is_wanted else "only_if",
    )


class _SourceReader:
    """Reads the body when a pointer needs it."""

    def __init__(self, hook: HookRecord, delivery: Incoming) -> None:
        self._hook = hook
        self._delivery = delivery
        self._document: Any = None
        self._is_read = False

    def value(self, source: str) -> Any:
        """ABSENT if the delivery does not have it."""
        if source.startswith(_HEADER):
            return self._delivery.headers.get(source.removeprefix(_HEADER).strip().lower(), ABSENT)
        if source.startswith(_QUERY):
            return self._delivery.query.get(source.removeprefix(_QUERY).strip(), ABSENT)
        return value_at(source, self._body())

    def _body(self) -> Any:
        if not self._is_read:
            self._document = _document(self._hook.kind, self._delivery)
            self._is_read = True
        return self._document


def _document(kind: HookKind, delivery: Incoming) -> Any:
    """The JSON of the body; of a form, an object of its fields. An empty body has no members."""
    if not delivery.body:
        return ABSENT
    media_type = delivery.headers.get("content-type", "").partition(";")[0].strip().lower()
    # `curl -d` calls everything a form, also JSON.
    if media_type != _FORM or delivery.body.lstrip()[:1] in (b"{", b"["):
        return _json(delivery.body)
    try:
        fields = dict(parse_qsl(delivery.body.decode(), keep_blank_values=True, max_num_fields=1000))
    except (UnicodeDecodeError, ValueError) as error:
        raise _unreadable(f"the body is not a form: {error}") from None
    if kind is HookKind.GITHUB and "payload" in fields:
        return _json(fields["payload"].encode())
    return fields


def _json(text: bytes) -> Any:
    try:
        document = msgspec.json.decode(text)
    except RecursionError:
        raise _unreadable("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        raise _unreadable(f"the body is not JSON: {malformed}") from None
    if is_nested_deeper(document, MAX_INPUT_NESTING):
        raise _unreadable(f"nested more than {MAX_INPUT_NESTING} deep")
    return document


def _key(hook: HookRecord, reader: _SourceReader) -> str | None:
    if hook.idempotency is None:
        values = (_scalar(reader.value(source)) for source in _DELIVERY_IDS[hook.kind])
        return next((value for value in values if value), None)
    found = reader.value(hook.idempotency)
    key = _scalar(found)
    if not key:
        message = f"expected a text or a number at {hook.idempotency!r}, the hook's idempotency key"
        value = "absent" if found is ABSENT else shortened_json(found)
        raise InvalidRequest(problems=[FieldProblem("idempotency", message, value=value)])
    return key


def _scalar(value: Any) -> str | None:
    """A text or a number as a key; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _unreadable(message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem("", message)])
