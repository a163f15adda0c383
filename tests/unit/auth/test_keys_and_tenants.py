"""API keys in the clear and as they are stored, and the tenant of a run."""

import hmac

from msgspec import structs

from pyoco_server.auth.scopes import ALL_SCOPES
from pyoco_server.auth.tokens import Token, digest_of, new_token, stored_secret
from pyoco_server.records.runs.run_models import job_of, pending_snapshot
from pyoco_server.runs.lifecycle.submission import new_job


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token().text() for _ in range(100)}
    assert len(tokens) == 100
    for text in tokens:
        token = Token.parse(text)
        assert token is not None
        assert len(bytes.fromhex(token.secret)) == 32
        assert token.text() == text
        assert token.secret not in repr(token)


def test_the_same_secret_is_stored_differently_each_time() -> None:
    token = new_token()
    assert stored_secret(token, "p").digest != stored_secret(token, "p").digest


def test_the_hash_of_a_secret_is_one_fast_hash() -> None:
    """A request must not wait for a hash that is slow on purpose: the secret has 256 random bits."""
    expected = hmac.new(b"pepper", b"salt:secret", "sha256").hexdigest()
    assert digest_of("secret", "salt", b"pepper") == expected


def test_the_names_of_the_scopes() -> None:
    triggers = {"events", "triggers"}
    assert {
        "submit",
        "read",
        "answer",
        "operate",
        "workers",
        "wheels",
        "audit",
        "admin",
    } | triggers == ALL_SCOPES


def test_a_recreated_job_has_the_same_tenant() -> None:
    job = structs.replace(new_job(flow_name="noop", tag="default"), tenant_id="acme", api_key_id="a key")
    assert job_of(pending_snapshot(job), None) == job
