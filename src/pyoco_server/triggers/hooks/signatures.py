"""Whether a delivery comes from its sender: the token or the signature of each kind of hook.

A signature is over the bytes of the body as they came. All secrets are compared with all given signatures, in
constant time, and an unknown hook costs the same (`spend_check_time`): the time of an answer reveals nothing.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

from pyoco_server.records.triggers.hook_models import HookKind, SignatureEncoding, SignatureOptions

# How old a signature may be, and how far in the future: clocks differ.
TOLERANCE_SEC: Final = 300.0
TOKEN_HEADER: Final = "x-hook-token"  # noqa: S105 - the name of a header
HMAC_HEADER: Final = "x-signature"
STANDARD_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what all of them begin with

# Senders put two signatures into a header while they change their secret.
_MAX_SIGNATURES: Final = 8
# Computed for every delivery, also for one to an unknown hook: a hook has up to two secrets.
_MIN_MACS: Final = 2
_PADDING_SECRET: Final = b"no hook has this secret"
# Svix, where Standard Webhooks comes from, has headers of its own.
_STANDARD_PREFIXES: Final = ("webhook-", "svix-")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A delivery as it came. The names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str] = field(default_factory=dict)
    client_ip: str | None = None
    # A message of NATS, which has no HTTP answer.
    over_nats: bool = False
    # Of a message of NATS: it was delivered before, and waits for the end of an earlier run.
    is_repeated: bool = False


class Refusal(StrEnum):
    """Why the proof of a delivery is not accepted; the response does not say it."""

    MISSING = "missing_proof"
    WRONG = "wrong_proof"
    OLD = "old_timestamp"
    NOT_OVER_HTTP = "not_over_http"


@dataclass(frozen=True, slots=True)
class _SignedText:
    """What a sender has signed, and its signatures."""

    text: bytes
    signatures: Sequence[str]
    encoding: SignatureEncoding = SignatureEncoding.HEX
    algorithm: str = "sha256"
    # When it was signed, as the sender says; None: it does not.
    timestamp: str | None = None


def refusal_of(
    kind: HookKind, options: SignatureOptions, secrets: Sequence[str], delivery: Incoming, *, now: float
) -> Refusal | None:
    """Why this delivery is refused; None: one of the secrets proves it."""
    if kind is HookKind.TOKEN:
        spend_check_time(delivery)
        return _check_token(options, secrets, delivery)
    reader = _READERS.get(kind)
    if reader is None:
        spend_check_time(delivery)
        return Refusal.NOT_OVER_HTTP
    signed = reader(options, delivery)
    is_signed = _is_signed(signed, [_key_of(kind, secret) for secret in secrets])
    if not signed.signatures:
        return Refusal.MISSING
    if not is_signed:
        return Refusal.WRONG
    if signed.timestamp is not None and not _is_recent(signed.timestamp, now):
        return Refusal.OLD
    return None


def spend_check_time(delivery: Incoming) -> None:
    """Spend the time of a signature check, where there is nothing to compare with."""
    _is_signed(_SignedText(delivery.body, ()), [])


def is_standard_secret(secret: str) -> bool:
    """Whether it has the form of Standard Webhooks: `whsec_` and base64."""
    try:
        return len(b64decode(secret.removeprefix(STANDARD_SECRET_PREFIX), validate=True)) > 0
    except (NotBase64, ValueError):
        return False


def proof_headers(kind: HookKind, options: SignatureOptions) -> frozenset[str]:
    """The headers that are not kept of a delivery."""
    named = {options.header.lower()} if options.header else set()
    fixed: dict[HookKind, set[str]] = {
        HookKind.TOKEN: {TOKEN_HEADER, "authorization"},
        HookKind.GITHUB: {"x-hub-signature", "x-hub-signature-256"},
        HookKind.STRIPE: {"stripe-signature"},
        HookKind.STANDARD_WEBHOOKS: {f"{prefix}signature" for prefix in _STANDARD_PREFIXES},
        HookKind.HMAC: {HMAC_HEADER},
    }
    return frozenset(fixed.get(kind, set()) | named)


def _check_token(options: SignatureOptions, secrets: Sequence[str], delivery: Incoming) -> Refusal | None:
    given = _given_token(options, delivery)
    if given is None:
        return Refusal.MISSING
    # Digests have one length: the time reveals no length either.
    digest = sha256(given.encode()).digest()
    matches = [hmac.compare_digest(digest, sha256(secret.encode()).digest()) for secret in secrets]
    return None if any(matches) else Refusal.WRONG


def _given_token(options: SignatureOptions, delivery: Incoming) -> str | None:
    """From the query, the header or the bearer token: the first of them."""
    if token := delivery.query.get("token"):
        return token
    if token := delivery.headers.get(options.header.lower() or TOKEN_HEADER):
        return token
    scheme, _, token = delivery.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _github(_: SignatureOptions, delivery: Incoming) -> _SignedText:
    given = _listed(delivery.headers.get("x-hub-signature-256", ""), "sha256=")
    return _SignedText(delivery.body, given)


def _stripe(_: SignatureOptions, delivery: Incoming) -> _SignedText:
    pairs = [part.strip().partition("=") for part in delivery.headers.get("stripe-signature", "").split(",")]
    timestamp = next((value for name, _, value in pairs if name == "t"), "")
    signatures = [value for name, _, value in pairs if name == "v1"]
    return _SignedText(timestamp.encode() + b"." + delivery.body, signatures, timestamp=timestamp)


def _standard(_: SignatureOptions, delivery: Incoming) -> _SignedText:
    prefix = next((each for each in _STANDARD_PREFIXES if f"{each}id" in delivery.headers), "webhook-")
    message_id, timestamp, signatures = (
        delivery.headers.get(prefix + name, "") for name in ("id", "timestamp", "signature")
    )
    text = f"{message_id}.{timestamp}.".encode() + delivery.body
    pairs = (each.partition(",") for each in signatures.split())
    given = [value for version, _, value in pairs if version == "v1"]
    return _SignedText(text, given, SignatureEncoding.BASE64, timestamp=timestamp)


def _plain_hmac(options: SignatureOptions, delivery: Incoming) -> _SignedText:
    header = delivery.headers.get(options.header.lower() or HMAC_HEADER, "")
    timestamp = None
    if options.timestamp_header:
        timestamp = delivery.headers.get(options.timestamp_header.lower(), "")
    template = options.signed_text or ("{body}" if timestamp is None else "{timestamp}.{body}")
    before, _, after = template.partition("{body}")
    around = [part.replace("{timestamp}", timestamp or "").encode() for part in (before, after)]
    return _SignedText(
        delivery.body.join(around),
        _listed(header, options.prefix),
        options.encoding,
        options.algorithm.value,
        timestamp,
    )


_READERS: Final[Mapping[HookKind, Callable[[SignatureOptions, Incoming], _SignedText]]] = {
    HookKind.GITHUB: _github,
    HookKind.STRIPE: _stripe,
    HookKind.STANDARD_WEBHOOKS: _standard,
    HookKind.HMAC: _plain_hmac,
}


def _listed(header: str, prefix: str) -> list[str]:
    """The signatures of a header, separated by commas or white space, without the prefix of each."""
    given = header.replace(",", " ").split()
    return [each.removeprefix(prefix) for each in given if each.startswith(prefix)]


def _key_of(kind: HookKind, secret: str) -> bytes:
    if kind is HookKind.STANDARD_WEBHOOKS:
        return b64decode(secret.removeprefix(STANDARD_SECRET_PREFIX))
    return secret.encode()


def _is_signed(signed: _SignedText, keys: Sequence[bytes]) -> bool:
    padding = [_PADDING_SECRET] * (_MIN_MACS - len(keys))
    expected = [
        _encoded(hmac.digest(key, signed.text, signed.algorithm), signed) for key in (*keys, *padding)
    ]
    given = [each.encode() for each in signed.signatures[:_MAX_SIGNATURES]]
    matches = [
        hmac.compare_digest(one.lower() if signed.encoding is SignatureEncoding.HEX else one, other)
        for one in given
        for other in expected[: len(keys)]
    ]
    return any(matches)


def _encoded(mac: bytes, signed: _SignedText) -> bytes:
    return mac.hex().encode() if signed.encoding is SignatureEncoding.HEX else b64encode(mac)


def _is_recent(timestamp: str, now: float) -> bool:
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    return is_number and abs(now - int(timestamp)) <= TOLERANCE_SEC
