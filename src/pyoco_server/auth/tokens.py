"""API keys in the clear and as they are stored.

A key is `pyoco_<key_id>_<secret>`; the secret is 256 random bits, so a fast hash is enough. The pepper is
the key of that hash (HMAC-SHA256). Without a pepper, whoever can write to the bucket can create a valid key.
"""

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from pyoco_server.broker.stores.api_keys import StoredSecret

_KEY_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_SALT_BYTES: Final = 16
_TOKEN: Final = re.compile(r"pyoco_([0-9a-f]{16})_([0-9a-f]{64})")
_KEY_ID: Final = re.compile(r"[0-9a-f]{16}")
_FINGERPRINT_BYTES: Final = 32
_FINGERPRINT_KEY: Final = secrets.token_bytes(_FINGERPRINT_BYTES)
KEY_ID_EXPECTED: Final = "expected the 16 hexadecimal digits that `api-key list` shows"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """Has no repr, so that no log shows it."""

    key_id: str
    secret: str

    def text(self) -> str:
        return f"pyoco_{self.key_id}_{self.secret}"

    @classmethod
    def parse(cls, text: str) -> "Token | None":
        found = _TOKEN.fullmatch(text)
        return None if found is None else cls(found[1], found[2])


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


def fingerprint(text: str) -> bytes:
    """Identifies a key in this process at a tenth of the cost of `digest_of`.

    The hash is keyed, so that the time of a dictionary lookup reveals nothing about the key.
    """
    return blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES, key=_FINGERPRINT_KEY).digest()
