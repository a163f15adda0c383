"""Which deliveries are proven: published vectors of the senders, and what must not pass.

The vectors are those that the senders publish:
- GitHub: docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation".
- Stripe: stripe/stripe-dotnet, src/StripeTests/Services/Events/EventUtilityTest.cs, with its
  Resources/event_test_signature.json.
- Standard Webhooks: the vector in the tests of standard-webhooks/standard-webhooks, the same as in Svix's
  own libraries (go/webhook_test.go, TestWebhookSign).
"""

import hmac
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyoco_server.records.triggers.hook_models import (
    HashAlgorithm,
    HookKind,
    SignatureEncoding,
    SignatureOptions,
)
from pyoco_server.triggers.hooks.signatures import (
    TOLERANCE_SEC,
    Incoming,
    Refusal,
    is_standard_secret,
    refusal_of,
)

NO_OPTIONS = SignatureOptions()

GITHUB_SECRET = "It's a Secret to Everybody"
GITHUB = Incoming(
    headers={
        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    },
    body=b"Hello, World!",
)

STRIPE_AT = 1533204620
STRIPE_SECRET = "webhook_secret"
STRIPE = Incoming(
    headers={
        "stripe-signature": f"t={STRIPE_AT},"
        "v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7,"
        "v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
    },
    body=b"""{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "cus_123",
      "object": "customer",
      "created": 123456789,
      "email": "test@stripe.com",
      "livemode": false,
      "metadata": {}
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "customer.created"
}
""",
)

STANDARD_AT = 1614265330
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD = Incoming(
    headers={
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": str(STANDARD_AT),
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    body=b'{"test": 2432232314}',
)

VECTORS = [
    pytest.param(HookKind.GITHUB, GITHUB_SECRET, GITHUB, 0.0, id="github"),
    pytest.param(HookKind.STRIPE, STRIPE_SECRET, STRIPE, float(STRIPE_AT + 100), id="stripe"),
    pytest.param(
        HookKind.STANDARD_WEBHOOKS, STANDARD_SECRET, STANDARD, float(STANDARD_AT), id="standard-webhooks"
    ),
]
SIGNATURES = {
    HookKind.GITHUB: "x-hub-signature-256",
    HookKind.STRIPE: "stripe-signature",
    HookKind.STANDARD_WEBHOOKS: "webhook-signature",
}


def with_header(delivery: Incoming, name: str, value: str) -> Incoming:
    return replace(delivery, headers={**delivery.headers, name: value})


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_a_published_vector_verifies(kind: HookKind, secret: str, delivery: Incoming, now: float) -> None:
    assert refusal_of(kind, NO_OPTIONS, [secret], delivery, now=now) is None


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_one_flipped_bit_of_the_body_does_not_verify(
    kind: HookKind, secret: str, delivery: Incoming, now: float
) -> None:
    for position in (0, len(delivery.body) // 2, len(delivery.body) - 1):
        flipped = bytearray(delivery.body)
        flipped[position] ^= 1
        changed = replace(delivery, body=bytes(flipped))
        assert refusal_of(kind, NO_OPTIONS, [secret], changed, now=now) is Refusal.WRONG


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_one_changed_character_of_the_signature_does_not_verify(
    kind: HookKind, secret: str, delivery: Incoming, now: float
) -> None:
    name = SIGNATURES[kind]
    given = delivery.headers[name]
    # Of Stripe's header, the signature v1.
    at = given.index("v1=") + 10 if kind is HookKind.STRIPE else len(given) // 2
    changed = given[:at] + ("0" if given[at] != "0" else "1") + given[at + 1 :]
    assert refusal_of(kind, NO_OPTIONS, [secret], with_header(delivery, name, changed), now=now) is not None


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_a_wrong_secret_does_not_verify(kind: HookKind, secret: str, delivery: Incoming, now: float) -> None:
    wrong = "whsec_" + b64encode(b"another secret").decode()
    assert refusal_of(kind, NO_OPTIONS, [wrong], delivery, now=now) is Refusal.WRONG
    assert refusal_of(kind, NO_OPTIONS, [], delivery, now=now) is Refusal.WRONG


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_a_second_body_with_the_same_signature_does_not_verify(
    kind: HookKind, secret: str, delivery: Incoming, now: float
) -> None:
    other = replace(delivery, body=b'{"id": "evt_124"}')
    assert refusal_of(kind, NO_OPTIONS, [secret], other, now=now) is Refusal.WRONG


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_a_missing_signature_is_reported_as_such(
    kind: HookKind, secret: str, delivery: Incoming, now: float
) -> None:
    unsigned = replace(delivery, headers={})
    assert refusal_of(kind, NO_OPTIONS, [secret], unsigned, now=now) is Refusal.MISSING


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS)
def test_both_secrets_of_a_rotation_verify(
    kind: HookKind, secret: str, delivery: Incoming, now: float
) -> None:
    other = "whsec_" + b64encode(b"another secret").decode()
    assert refusal_of(kind, NO_OPTIONS, [other, secret], delivery, now=now) is None
    assert refusal_of(kind, NO_OPTIONS, [secret, other], delivery, now=now) is None


@pytest.mark.parametrize(("kind", "secret", "delivery", "now"), VECTORS[1:])
@pytest.mark.parametrize("off_by", [TOLERANCE_SEC + 1, -TOLERANCE_SEC - 1])
def test_an_old_or_future_timestamp_does_not_verify(
    kind: HookKind, secret: str, delivery: Incoming, now: float, off_by: float
) -> None:
    signed_at = STRIPE_AT if kind is HookKind.STRIPE else STANDARD_AT
    late = signed_at + off_by
    assert refusal_of(kind, NO_OPTIONS, [secret], delivery, now=late) is Refusal.OLD
    in_time = signed_at + off_by * (TOLERANCE_SEC / (TOLERANCE_SEC + 1))
    assert refusal_of(kind, NO_OPTIONS, [secret], delivery, now=in_time) is None


def test_a_newer_timestamp_is_not_covered_by_the_signature() -> None:
    now = float(STANDARD_AT + 10_000)
    renewed = with_header(STANDARD, "webhook-timestamp", str(int(now)))
    refused = refusal_of(HookKind.STANDARD_WEBHOOKS, NO_OPTIONS, [STANDARD_SECRET], renewed, now=now)
    assert refused is Refusal.WRONG
    stripe = with_header(
        STRIPE, "stripe-signature", STRIPE.headers["stripe-signature"].replace(str(STRIPE_AT), str(int(now)))
    )
    assert refusal_of(HookKind.STRIPE, NO_OPTIONS, [STRIPE_SECRET], stripe, now=now) is Refusal.WRONG


@pytest.mark.parametrize(
    "timestamp", ["", "now", "1_614_265_330", "1614265330.0", "１６１４２６５３３０", "-1"]
)
def test_a_timestamp_that_is_no_number_does_not_verify(timestamp: str) -> None:
    text = f"msg.{timestamp}.".encode() + b"{}"
    mac = b64encode(hmac.digest(b"key of the sender", text, "sha256")).decode()
    delivery = Incoming(
        headers={"webhook-id": "msg", "webhook-timestamp": timestamp, "webhook-signature": f"v1,{mac}"},
        body=b"{}",
    )
    secret = "whsec_" + b64encode(b"key of the sender").decode()
    refused = refusal_of(HookKind.STANDARD_WEBHOOKS, NO_OPTIONS, [secret], delivery, now=STANDARD_AT)
    assert refused is Refusal.OLD


def test_one_of_several_signatures_is_enough() -> None:
    """Senders sign with both secrets while they change theirs."""
    other = "0" * 64
    github = with_header(
        GITHUB, "x-hub-signature-256", f"sha256={other},{GITHUB.headers['x-hub-signature-256']}"
    )
    assert refusal_of(HookKind.GITHUB, NO_OPTIONS, [GITHUB_SECRET], github, now=0.0) is None
    stripe = with_header(
        STRIPE, "stripe-signature", STRIPE.headers["stripe-signature"].replace(",v1=", f",v1={other},v1=", 1)
    )
    assert refusal_of(HookKind.STRIPE, NO_OPTIONS, [STRIPE_SECRET], stripe, now=STRIPE_AT) is None
    standard = with_header(
        STANDARD, "webhook-signature", f"v1,{other} v2,x {STANDARD.headers['webhook-signature']}"
    )
    kind = HookKind.STANDARD_WEBHOOKS
    assert refusal_of(kind, NO_OPTIONS, [STANDARD_SECRET], standard, now=STANDARD_AT) is None


def test_a_signature_of_another_version_does_not_count() -> None:
    v0_only = STRIPE.headers["stripe-signature"].replace("v1=", "v0=")
    delivery = with_header(STRIPE, "stripe-signature", v0_only)
    assert (
        refusal_of(HookKind.STRIPE, NO_OPTIONS, [STRIPE_SECRET], delivery, now=STRIPE_AT) is Refusal.MISSING
    )
    v1a = STANDARD.headers["webhook-signature"].replace("v1,", "v1a,")
    delivery = with_header(STANDARD, "webhook-signature", v1a)
    kind = HookKind.STANDARD_WEBHOOKS
    refused = refusal_of(kind, NO_OPTIONS, [STANDARD_SECRET], delivery, now=STANDARD_AT)
    assert refused is Refusal.MISSING


def test_the_sha1_signature_of_github_is_not_enough() -> None:
    mac = hmac.digest(GITHUB_SECRET.encode(), GITHUB.body, "sha1").hex()
    delivery = replace(GITHUB, headers={"x-hub-signature": f"sha1={mac}"})
    assert refusal_of(HookKind.GITHUB, NO_OPTIONS, [GITHUB_SECRET], delivery, now=0.0) is Refusal.MISSING


def test_headers_of_svix_are_those_of_standard_webhooks() -> None:
    headers = {name.replace("webhook-", "svix-"): value for name, value in STANDARD.headers.items()}
    delivery = replace(STANDARD, headers=headers)
    kind = HookKind.STANDARD_WEBHOOKS
    assert refusal_of(kind, NO_OPTIONS, [STANDARD_SECRET], delivery, now=STANDARD_AT) is None


def a_token(place: str, token: str) -> Incoming:
    places: dict[str, Callable[[], Incoming]] = {
        "query": lambda: Incoming({}, b"", {"token": token}),
        "header": lambda: Incoming({"x-hook-token": token}, b""),
        "bearer": lambda: Incoming({"authorization": f"Bearer {token}"}, b""),
        "lower-case bearer": lambda: Incoming({"authorization": f"bearer  {token}"}, b""),
    }
    return places[place]()


@pytest.mark.parametrize("place", ["query", "header", "bearer", "lower-case bearer"])
def test_a_token_comes_in_the_query_a_header_or_as_bearer(place: str) -> None:
    secrets = ["the right token", "the old token"]
    assert refusal_of(HookKind.TOKEN, NO_OPTIONS, secrets, a_token(place, "the right token"), now=0.0) is None
    assert refusal_of(HookKind.TOKEN, NO_OPTIONS, secrets, a_token(place, "the old token"), now=0.0) is None
    for wrong in ("the wrong token", "the right toke", "the right token2", "日本"):
        refused = refusal_of(HookKind.TOKEN, NO_OPTIONS, secrets, a_token(place, wrong), now=0.0)
        assert refused is Refusal.WRONG


def test_the_query_token_precedes_the_header_and_the_header_the_bearer() -> None:
    both = Incoming({"x-hook-token": "right", "authorization": "Bearer right"}, b"", {"token": "wrong"})
    assert refusal_of(HookKind.TOKEN, NO_OPTIONS, ["right"], both, now=0.0) is Refusal.WRONG
    both = Incoming({"x-hook-token": "right", "authorization": "Bearer wrong"}, b"")
    assert refusal_of(HookKind.TOKEN, NO_OPTIONS, ["right"], both, now=0.0) is None


def test_a_token_may_come_in_another_header() -> None:
    options = SignatureOptions(header="X-Gitlab-Token")
    delivery = Incoming({"x-gitlab-token": "right"}, b"")
    assert refusal_of(HookKind.TOKEN, options, ["right"], delivery, now=0.0) is None
    assert refusal_of(HookKind.TOKEN, NO_OPTIONS, ["right"], delivery, now=0.0) is Refusal.MISSING


@pytest.mark.parametrize("algorithm", list(HashAlgorithm))
@pytest.mark.parametrize("encoding", list(SignatureEncoding))
def test_plain_hmac_in_every_algorithm_and_encoding(
    algorithm: HashAlgorithm, encoding: SignatureEncoding
) -> None:
    mac = hmac.digest(b"secret", b"body", algorithm.value)
    text = mac.hex() if encoding is SignatureEncoding.HEX else b64encode(mac).decode()
    options = SignatureOptions(header="X-Sig", algorithm=algorithm, encoding=encoding, prefix="v=")
    delivery = Incoming({"x-sig": f"v={text}"}, b"body")
    assert refusal_of(HookKind.HMAC, options, ["secret"], delivery, now=0.0) is None
    unprefixed = Incoming({"x-sig": text}, b"body")
    assert refusal_of(HookKind.HMAC, options, ["secret"], unprefixed, now=0.0) is Refusal.MISSING
    changed = replace(delivery, body=b"Body")
    assert refusal_of(HookKind.HMAC, options, ["secret"], changed, now=0.0) is Refusal.WRONG


def test_hex_signatures_may_be_in_upper_case() -> None:
    mac = hmac.digest(b"secret", b"body", "sha256").hex().upper()
    delivery = Incoming({"x-signature": mac}, b"body")
    assert refusal_of(HookKind.HMAC, NO_OPTIONS, ["secret"], delivery, now=0.0) is None


def test_the_timestamp_of_plain_hmac_is_signed_and_recent() -> None:
    """As Slack does: v0:<timestamp>:<body>."""
    options = SignatureOptions(
        header="X-Slack-Signature",
        prefix="v0=",
        timestamp_header="X-Slack-Request-Timestamp",
        signed_text="v0:{timestamp}:{body}",
    )
    mac = hmac.digest(b"secret", b"v0:1531420618:token=x", "sha256").hex()
    headers = {"x-slack-signature": f"v0={mac}", "x-slack-request-timestamp": "1531420618"}
    delivery = Incoming(headers, b"token=x")
    assert refusal_of(HookKind.HMAC, options, ["secret"], delivery, now=1531420618.0) is None
    assert refusal_of(HookKind.HMAC, options, ["secret"], delivery, now=1531420918.5) is Refusal.OLD
    renewed = with_header(delivery, "x-slack-request-timestamp", "1531420918")
    assert refusal_of(HookKind.HMAC, options, ["secret"], renewed, now=1531420918.0) is Refusal.WRONG
    without = Incoming({"x-slack-signature": f"v0={mac}"}, b"token=x")
    assert refusal_of(HookKind.HMAC, options, ["secret"], without, now=1531420618.0) is Refusal.WRONG


def test_a_hook_of_the_kind_nats_accepts_nothing_over_http() -> None:
    refused = refusal_of(HookKind.NATS, NO_OPTIONS, [], Incoming({}, b""), now=0.0)
    assert refused is Refusal.NOT_OVER_HTTP


@pytest.mark.parametrize(
    ("secret", "is_valid"),
    [
        (STANDARD_SECRET, True),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", True),
        ("whsec_", False),
        ("no base64!", False),
    ],
)
def test_the_form_of_a_secret_of_standard_webhooks(secret: str, is_valid: bool) -> None:
    assert is_standard_secret(secret) is is_valid
