"""One setting: how its text is parsed, and which values are valid."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from pyoco_server.errors import FieldProblem, shortened

Kind = Literal["str", "int", "float", "bool", "choice", "list"]
Value = str | int | float | bool

ENV_PREFIX: Final = "PYOCO_"
# Of settings whose names are part of a contract.
CONTRACT_PREFIX: Final = "AX_"
REDACTED: Final = "[redacted]"

_METADATA_KEY: Final = "setting"
# By the last word of the name.
_UNITS: Final = {"sec": " of seconds", "seconds": " of seconds", "bytes": " of bytes", "days": " of days"}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_CHAT_HOST: Final = "chat.googleapis.com"
_CHAT_PATH: Final = re.compile(r"/v1/spaces/[A-Za-z0-9_-]+/messages")
_NEXT_URL: Final = re.compile(r",\s*(?=[a-z][a-z0-9+.-]*://)", re.IGNORECASE)
_NEXT_PAIR: Final = re.compile(r"\s*,\s*(?=[^\s,=/?]+=)")
_PAIR_NAME: Final = re.compile(r"[^\s,=]{1,200}")
_CREDENTIALS: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Form:
    """A format that the text of a setting must have."""

    expected: str
    fits: Callable[[str], bool]
    has_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the settings table."""

    name: str  # the environment variable
    field: str
    kind: Kind
    default: Value
    help: str
    group: str
    secret: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None  # an exclusive lower bound
    maximum: float | None = None
    form: Form | None = None

    @property
    def expected(self) -> str:
        """A description of valid values, for error messages."""
        bounds = [
            f"{word} {bound:.12g}"
            for word, bound in (
                ("more than", self.above),
                ("at least", self.minimum),
                ("at most", self.maximum),
            )
            if bound is not None
        ]
        return ", ".join([self._expected_kind(), *bounds])

    def _expected_kind(self) -> str:
        if self.kind in ("int", "float"):
            number = "a whole number" if self.kind == "int" else "a number"
            unit = _UNITS.get(self.field.rpartition("_")[2], "")
            return number + unit
        if self.kind == "bool":
            return "one of 1, 0, true, false, yes, no, on, off"
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "list" and self.form is None:
            return "texts separated by commas"
        return self.form.expected if self.form else "a text that is not empty"

    def parse(self, text: str) -> Value:
        """Parse the text of an environment variable. `accepts` checks bounds and form afterwards."""
        word = text.strip()
        if self.kind == "int":
            return int(word)
        if self.kind == "float":
            return float(word)
        if self.kind == "bool":
            if word.lower() not in _TRUE | _FALSE:
                raise ValueError(text)
            return word.lower() in _TRUE
        if self.kind == "choice":
            return next((choice for choice in self.choices if choice.lower() == word.lower()), text)
        return text

    def accepts(self, value: object) -> bool:
        if self.kind == "bool":
            return isinstance(value, bool)
        if self.kind in ("int", "float"):
            return self._accepts_number(value)
        if not isinstance(value, str):
            return False
        if self.kind == "choice":
            return value in self.choices
        if value == self.default:
            return True
        return self.form.fits(value) if self.form else bool(value.strip())

    def _accepts_number(self, value: object) -> bool:
        allowed = int if self.kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
        )

    def problem(self, value: object) -> FieldProblem:
        """The error about a value that is not accepted."""
        return FieldProblem(
            self.name, f"expected {self.expected} (default {self.shown_default})", self.shown(value)
        )

    @property
    def shown_default(self) -> str:
        """The default as written in an environment file."""
        if isinstance(self.default, bool):
            return "1" if self.default else "0"
        return str(self.default) if self.default != "" else "not set"

    def shown(self, value: object) -> str:
        """The value for a message or a repr, without secrets."""
        if self.secret:
            return repr(REDACTED if value else value)
        if self.form and self.form.has_credentials and isinstance(value, str):
            value = safe_url(value)
        return shortened(value)


def setting(
    group: str,
    default: Value,
    help: str,
    *,
    secret: bool = False,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    form: Form | None = None,
    comma_separated: bool = False,
    prefix: str = ENV_PREFIX,
) -> Any:
    """A dataclass field with its row of the settings table."""
    rules = {
        "prefix": prefix,
        "group": group,
        "help": help,
        "secret": secret,
        "choices": choices,
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "form": form,
        "kind": "choice" if choices else "list" if comma_separated else type(default).__name__,
    }
    return field(default=default, metadata={_METADATA_KEY: rules})


def setting_of(declared: Field[Any]) -> Setting:
    assert declared.default is not MISSING
    rules = dict(declared.metadata[_METADATA_KEY])
    return Setting(
        name=rules.pop("prefix") + declared.name.upper(),
        field=declared.name,
        default=declared.default,
        **rules,
    )


def split_urls(urls: str) -> list[str]:
    """The single URLs of a comma separated list. A comma inside a password does not split."""
    return _NEXT_URL.split(urls)


def named_values(text: str) -> dict[str, str]:
    """The values of `name=value` pairs; a comma begins the next pair only before a name and `=`."""
    return {
        name.strip(): value.strip()
        for pair in _NEXT_PAIR.split(text.strip(" ,"))
        for name, _, value in [pair.partition("=")]
    }


def _are_pairs(text: str, is_value: Callable[[str], bool]) -> bool:
    pairs = named_values(text)
    return all(_PAIR_NAME.fullmatch(name) and is_value(value) for name, value in pairs.items())


def safe_url(urls: str) -> str:
    """The URL, or the comma separated URLs, without user name, password and token."""
    return ",".join(_CREDENTIALS.sub(r"\1", url) for url in split_urls(urls))


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_url(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def is_chat_webhook(url: str) -> bool:
    """Whether it is the webhook of a Google Chat space; requests go to no other host."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, strict_parsing=True)
    except ValueError:
        return False
    secrets = [query.get(name, []) for name in ("key", "token")]
    return (
        parts.scheme == "https"
        # With a port or a user it would be another text.
        and parts.netloc == _CHAT_HOST
        and _CHAT_PATH.fullmatch(parts.path) is not None
        and all(len(values) == 1 and values[0].strip() for values in secrets)
        and not parts.fragment
        and url.isascii()
        and url.isprintable()
        and " " not in url
    )


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


NAME: Final = Form("a name of letters, digits, _ and -", _matches(r"[A-Za-z0-9_-]+"))
TAG: Final = Form("1 to 64 letters, digits, _ and -", _matches(r"[A-Za-z0-9_-]{1,64}"))
SUBJECT: Final = Form(
    "names of letters, digits, _ and -, joined by dots", _matches(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
)
_HOST: Final = _matches(
    r"\*|\*(\.[A-Za-z0-9_-]+)+|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?"
)
HOSTS: Final = Form(
    "names of hosts separated by commas, such as gateway.example.com, gateway:8000, *.example.com or *",
    # Empty parts are allowed, but at least one name is required.
    lambda text: (
        bool(text.strip(" ,")) and all(_HOST(part.strip()) for part in text.split(",") if part.strip())
    ),
)
NETWORKS: Final = Form(
    "addresses or networks separated by commas, such as 10.0.0.0/8, 192.0.2.7 or fd00::/8",
    lambda text: (
        bool(text.strip(" ,")) and all(_is_network(part.strip()) for part in text.split(",") if part.strip())
    ),
)
_SECRETS_KEY: Final = _matches(r"[A-Za-z0-9_-]{43}=")
SECRETS_KEYS: Final = Form(
    "keys of `pyoco-server-admin secrets create-key`, separated by commas",
    lambda text: (
        bool(text.strip(" ,")) and all(_SECRETS_KEY(part.strip()) for part in text.split(",") if part.strip())
    ),
)
HEADER: Final = Form("the name of an HTTP header", _matches(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"))
NATS_URLS: Final = Form(
    "a URL such as nats://127.0.0.1:4222 (or with tls, ws or wss), or several separated by commas",
    lambda text: all(_is_url(url, ("nats", "tls", "ws", "wss")) for url in split_urls(text)),
    has_credentials=True,
)
NAMED_URLS: Final = Form(
    "name=URL pairs separated by commas, such as finance=https://hooks.example.com/f",
    lambda text: _are_pairs(text, lambda url: _is_url(url, ("http", "https"))),
)
NAMED_TEXTS: Final = Form("name=text pairs separated by commas", lambda text: _are_pairs(text, bool))
CHAT_WEBHOOK: Final = Form(
    "the webhook of a Google Chat space: "
    "https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=...",
    is_chat_webhook,
)
HTTP_URL: Final = Form(
    "a URL such as http://127.0.0.1:8000",
    lambda text: _is_url(text, ("http", "https")),
    has_credentials=True,
)
