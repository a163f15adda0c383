"""API keys in the clear and as they are stored.

A key is `pyoco_<key_id>_<secret>`; the secret is 256 random bits, so a fast hash is enough. The pepper is
the key of that hash (HMAC-SHA256). Without a pepper, whoever can write to the bucket can create a valid key.

The public package is another program of this name, whose data and keys are taken over (docs/migration.md).
Its keys are `pyoco_<key_id>.<secret>`, and their hash is PBKDF2, which is slow on purpose: it is computed in
a thread, one at a time, and once per key (api_key_cache.py).
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from hashlib import blake2b, pbkdf2_hmac
from typing import Final

from pyoco_server.broker.stores.api_keys import StoredSecret

_KEY_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_SALT_BYTES: Final = 16
# An id of the public package has 24 digits. It stays when its key is rotated here.
_TOKEN: Final = re.compile(r"pyoco_([0-9a-f]{16}|[0-9a-f]{24})_([0-9a-f]{64})")
_PUBLIC_TOKEN: Final = re.compile(r"pyoco_([0-9a-f]{24})\.([A-Za-z0-9_-]{20,200})")
_KEY_ID: Final = re.compile(r"[0-9a-f]{16}|[0-9a-f]{24}")
_FINGERPRINT_BYTES: Final = 32
_FINGERPRINT_KEY: Final = secrets.token_bytes(_FINGERPRINT_BYTES)
KEY_ID_EXPECTED: Final = "expected the 16 (or 24) hexadecimal digits that `api-key list` shows"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """Has no repr, so that no log shows it."""

    key_id: str
    secret: str
    # Whether it has the form of the public package's keys.
    has_public_form: bool = False

    def text(self) -> str:
        return f"pyoco_{self.key_id}_{self.secret}"

    @classmethod
    def parse(cls, text: str) -> "Token | None":
        if found := _TOKEN.fullmatch(text):
            return cls(found[1], found[2])
        found = _PUBLIC_TOKEN.fullmatch(text)
        return None if found is None else cls(found[1], found[2], has_public_form=True)


def new_token(key_id: str = "") -> Token:
    """A new secret, of a new key unless an id is given."""
    return Token(key_id or secrets.token_hex(_KEY_ID_BYTES), secrets.token_hex(_SECRET_BYTES))


def is_key_id(text: str) -> bool:
    return _KEY_ID.fullmatch(text) is not None


def stored_secret(token: Token, pepper: str) -> StoredSecret:
    salt = secrets.token_hex(_SALT_BYTES)
    return StoredSecret(salt=salt, digest=digest_of(token.secret, salt, pepper.encode()))


def digest_of(secret: str, salt: str, pepper: bytes) -> str:
    return hmac.digest(pepper, f"{salt}:{secret}".encode(), "sha256").hex()


def matches_pbkdf2(secret: str, stored: StoredSecret, pepper: str) -> bool:
    """Whether it is the secret of a key of the public package; takes about a tenth of a second."""
    found = pbkdf2_hmac("sha256", (secret + pepper).encode(), _unpadded(stored.salt), stored.iterations)
    return hmac.compare_digest(found, _unpadded(stored.digest))


def _unpadded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def fingerprint(text: str) -> bytes:
    """Identifies a key in this process at a tenth of the cost of `digest_of`.

    The hash is keyed, so that the time of a dictionary lookup reveals nothing about the key.
    """
    return blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES, key=_FINGERPRINT_KEY).digest()
