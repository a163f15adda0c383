"""Which fields of an alert are refused; the rule and the channels as they are stored."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from msgspec import structs

from pyoco_server.config.setting import is_chat_webhook
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    SecretUnreadable,
    shortened,
    shortened_json,
)
from pyoco_server.records.monitoring.alert_models import (
    AlertChannel,
    AlertCondition,
    AlertLanguage,
    AlertRule,
    ChannelKind,
)
from pyoco_server.triggers.secrets_at_rest import SecretBox

_WINDOW_SEC: Final = 3600.0
_MIN_RUNS: Final = 10
_FINGERPRINT_CHARS: Final = 12
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\\\[\]]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
# Of each condition the fields that it needs, and those that have a default.
_NEEDED: Final[Mapping[AlertCondition, tuple[str, ...]]] = {
    AlertCondition.RUN_FAILED: ("flow_name",),
    AlertCondition.FAILURES: ("flow_name", "count"),
    AlertCondition.FAILURE_RATE: ("flow_name", "percent"),
    AlertCondition.QUEUE_AGE: ("tag", "after_sec"),
    AlertCondition.NO_WORKER: ("tag", "after_sec"),
}
_DEFAULTS: Final[Mapping[AlertCondition, Mapping[str, Any]]] = {
    AlertCondition.FAILURES: {"window_sec": _WINDOW_SEC},
    AlertCondition.FAILURE_RATE: {"window_sec": _WINDOW_SEC, "min_runs": _MIN_RUNS},
}
_EXAMPLES: Final = {
    "flow_name": "the name of a flow, in which * stands for any text, such as orders or *",
    "tag": "the tag of a queue, such as default",
    "count": "how many failures, such as 3",
    "percent": "the percentage of failed runs, such as 50",
    "after_sec": "how long in seconds, such as 600",
}
_CHAT_EXPECTED: Final = (
    "expected the webhook of a Google Chat space: "
    "https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=..."
)
_URL_EXPECTED: Final = "expected a URL that begins with https:// or http:// and has a host"
_URL_MISSING: Final = (
    "expected the URL of this channel; only a stored channel of this name and kind keeps its own"
)
_NO_MAIL: Final = "this gateway cannot send mail: an operator has to set PYOCO_SMTP_HOST; use another channel"


@dataclass(frozen=True, slots=True)
class GivenChannel:
    """A channel as a caller gives it: what is None stays as it is stored."""

    name: str
    kind: ChannelKind
    url: str | None = field(default=None, repr=False)
    # Empty: messages are not signed any more.
    secret: str | None = field(default=None, repr=False)
    to: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GivenAlert:
    """An alert as a caller gives it."""

    rule: AlertRule
    channels: Sequence[GivenChannel]
    cool_down_sec: float
    send_resolved: bool
    language: AlertLanguage
    note: str


def checked_rule(given: AlertRule) -> AlertRule:
    """With its defaults; InvalidRequest names every field that is missing, or of another condition."""
    condition = given.condition
    needed, defaults = _NEEDED[condition], _DEFAULTS.get(condition, {})
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {"condition": condition}
    for name in given.__struct_fields__[1:]:
        value = getattr(given, name)
        if name not in needed and name not in defaults:
            if value is not None:
                used = ", ".join((*needed, *defaults))
                message = f"the condition {condition} does not use it; it uses {used}"
                problems.append(FieldProblem(name, message, shortened_json(value)))
        elif value is None and name in needed:
            problems.append(FieldProblem(name, f"expected {_EXAMPLES[name]}, for the condition {condition}"))
        else:
            values[name] = defaults.get(name) if value is None else value
    if problems:
        raise InvalidRequest(problems=problems)
    return AlertRule(**values)


def checked_channels(
    given: Sequence[GivenChannel],
    stored: Sequence[AlertChannel],
    box: SecretBox,
    *,
    has_mail: bool,
    refusal: "AddressCheck",
) -> list[AlertChannel]:
    """The channels with their secrets encrypted; InvalidRequest names what is wrong, never a URL or secret.

    NoSecretsKey if there is nothing to encrypt them with.
    """
    checker = _Channels({each.name: each for each in stored}, has_mail, refusal)
    checker.check(given)
    if checker.problems:
        raise InvalidRequest(problems=checker.problems)
    return [_stored_channel(each, checker.kept(each), box) for each in given]


class AddressCheck:
    """Why no request may go to the host of a URL, if that is known without resolving its name."""

    def __init__(self, networks: str) -> None:
        self._networks = networks

    def of_host(self, host: str) -> str | None:
        # httpx takes 5 MB, and most gateways check no alert.
        from pyoco_server.notify import public_addresses  # noqa: PLC0415

        address = public_addresses.literal_address(host)
        if address is None:
            return None
        return public_addresses.refusal_of(address, public_addresses.allowed_networks(self._networks))


class _Channels:
    """Collects the problems of the channels of one alert."""

    def __init__(self, stored: dict[str, AlertChannel], has_mail: bool, refusal: AddressCheck) -> None:
        self._stored = stored
        self._has_mail = has_mail
        self._refusal = refusal
        self.problems: list[FieldProblem] = []

    def kept(self, given: GivenChannel) -> AlertChannel | None:
        """The stored channel whose URL and secret it keeps."""
        stored = self._stored.get(given.name)
        return stored if stored is not None and stored.kind is given.kind else None

    def check(self, given: Sequence[GivenChannel]) -> None:
        names: set[str] = set()
        for number, channel in enumerate(given):
            place = f"channels[{number}]"
            if channel.name in names:
                message = "another channel has this name; give each its own"
                self._add(f"{place}.name", message, shortened(channel.name))
            names.add(channel.name)
            if channel.kind is ChannelKind.MAIL:
                self._check_mail(place, channel)
            else:
                self._check_url(place, channel)

    def _check_mail(self, place: str, channel: GivenChannel) -> None:
        if not self._has_mail:
            self._add(f"{place}.kind", _NO_MAIL, shortened(str(channel.kind)))
        for name in ("url", "secret"):
            if getattr(channel, name) is not None:
                self._add(
                    f"{place}.{name}", "a channel of the kind mail has none; give its addresses in `to`"
                )
        if not channel.to:
            self._add(f"{place}.to", 'expected mail addresses, such as ["ops@example.com"]')
        for number, address in enumerate(channel.to):
            if not (address.isascii() and _ADDRESS.fullmatch(address)):
                self._add(
                    f"{place}.to[{number}]",
                    "expected a mail address such as ops@example.com",
                    shortened(address),
                )

    def _check_url(self, place: str, channel: GivenChannel) -> None:
        if channel.to:
            self._add(f"{place}.to", f"a channel of the kind {channel.kind} has no mail addresses")
        if channel.secret and channel.kind is not ChannelKind.WEBHOOK:
            self._add(
                f"{place}.secret", "only messages to a channel of the kind webhook are signed; leave it out"
            )
        if channel.url is None:
            if self.kept(channel) is None:
                self._add(f"{place}.url", _URL_MISSING)
        elif channel.kind is ChannelKind.GOOGLE_CHAT:
            if not is_chat_webhook(channel.url):
                self._add(f"{place}.url", _CHAT_EXPECTED)
        elif (parts := _parts(channel.url)) is None:
            self._add(f"{place}.url", _URL_EXPECTED)
        elif why := self._refusal.of_host(parts.hostname or ""):
            self._add(f"{place}.url", why)

    def _add(self, name: str, message: str, value: str | None = None) -> None:
        self.problems.append(FieldProblem(name, message, value))


def _parts(url: str) -> SplitResult | None:
    """None if it cannot be the URL of a channel."""
    if not (url.isascii() and url.isprintable()) or " " in url:
        return None
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid else None


def _stored_channel(given: GivenChannel, kept: AlertChannel | None, box: SecretBox) -> AlertChannel:
    if given.kind is ChannelKind.MAIL:
        return AlertChannel(name=given.name, kind=given.kind, to=list(given.to))
    channel = kept or AlertChannel(name=given.name, kind=given.kind)
    if given.url is not None:
        channel = structs.replace(
            channel,
            url=_encrypted(given.url, channel.url, box),
            host=urlsplit(given.url).hostname or "",
            fingerprint=sha256(given.url.encode()).hexdigest()[:_FINGERPRINT_CHARS],
        )
    if given.secret is not None:
        secret = _encrypted(given.secret, channel.secret, box) if given.secret else None
        channel = structs.replace(channel, secret=secret, signed=secret is not None)
    return channel


def _encrypted(secret: str, stored: str | None, box: SecretBox) -> str:
    """What is stored stays if it is the same: an alert that is saved without a change is not written."""
    box.require_key()
    try:
        if stored is not None and box.decrypt(stored) == secret:
            return stored
    except SecretUnreadable:
        # Under a key that is lost: it is replaced.
        return box.encrypt(secret)
    return box.encrypt(secret)
