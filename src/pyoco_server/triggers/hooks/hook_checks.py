"""Which fields of a hook are refused, and the secrets that the server makes."""

import secrets
from base64 import b64encode
from typing import Final

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.records.triggers.hook_models import HookKind, HookRecord, SignatureOptions
from pyoco_server.triggers.hooks.delivery_mapping import SOURCE_EXPECTED, is_source
from pyoco_server.triggers.hooks.signatures import STANDARD_SECRET_PREFIX, is_standard_secret

_SECRET_BYTES: Final = 32
_NO_OPTIONS: Final = SignatureOptions()


def new_secret(kind: HookKind) -> str:
    """A random secret, in the form that senders of this kind expect."""
    if kind in (HookKind.STANDARD_WEBHOOKS, HookKind.STRIPE):
        return STANDARD_SECRET_PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    return secrets.token_urlsafe(_SECRET_BYTES)


def check_secret(kind: HookKind, given: str | None) -> None:
    """InvalidRequest never shows the secret."""
    if given is None:
        return
    if kind is HookKind.NATS:
        raise _invalid("secret", "a hook of the kind `nats` has none: the rights of NATS users protect it")
    if not given.isprintable() or given != given.strip():
        raise _invalid("secret", "expected printable characters without white space around them")
    if kind is HookKind.TOKEN and not given.isascii():
        raise _invalid("secret", "expected ASCII characters: a header cannot carry others")
    if kind is HookKind.STANDARD_WEBHOOKS and not is_standard_secret(given):
        raise _invalid("secret", f"expected `{STANDARD_SECRET_PREFIX}` and base64, as the sender shows it")


def check_hook(hook: HookRecord) -> None:
    """InvalidRequest names every field that is refused."""
    problems = [*_signature_problems(hook), *_source_problems(hook)]
    if problems:
        raise InvalidRequest(problems=problems)


def _signature_problems(hook: HookRecord) -> list[FieldProblem]:
    options = hook.signature
    if hook.kind is HookKind.HMAC:
        return _hmac_problems(options)
    allowed = SignatureOptions(header=options.header) if hook.kind is HookKind.TOKEN else _NO_OPTIONS
    if options != allowed:
        which = "only `header`" if hook.kind is HookKind.TOKEN else "no options"
        return [FieldProblem("signature", f"a hook of the kind `{hook.kind}` has {which} here")]
    return []


def _hmac_problems(options: SignatureOptions) -> list[FieldProblem]:
    text = options.signed_text
    problems: list[FieldProblem] = []
    if text and text.count("{body}") != 1:
        message = "expected `{body}` once, such as `v0:{timestamp}:{body}`"
        problems.append(FieldProblem("signature.signed_text", message, shortened(text)))
    if "{timestamp}" in text and not options.timestamp_header:
        message = "expected the header that `{timestamp}` is in"
        problems.append(FieldProblem("signature.timestamp_header", message))
    if options.timestamp_header and text and "{timestamp}" not in text:
        message = "expected `{timestamp}` as well: a time that is not signed proves nothing"
        problems.append(FieldProblem("signature.signed_text", message, shortened(text)))
    if any(character in options.prefix for character in ", \t"):
        message = "expected no comma and no white space: these separate several signatures"
        problems.append(FieldProblem("signature.prefix", message, shortened(options.prefix)))
    return problems


def _source_problems(hook: HookRecord) -> list[FieldProblem]:
    sources = {f"map.{name}": source for name, source in (hook.map or {}).items()}
    sources |= {f"only_if.{source}": source for source in hook.only_if}
    if hook.idempotency is not None:
        sources["idempotency"] = hook.idempotency
    return [
        FieldProblem(field, SOURCE_EXPECTED, shortened(source))
        for field, source in sources.items()
        if not is_source(source)
    ]


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(problems=[FieldProblem(field, message)])
