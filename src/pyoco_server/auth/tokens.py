"""The key as its owner has it, and what is stored of it.

A key is `pyoco_<key_id>_<secret>`. The id finds the record, and is no secret; the secret is 256 random bits.
One fast hash of those is enough: there is nothing to guess that a slow one would protect, and it is on the
way of every request. The pepper is the key of the hash (HMAC-SHA256). Without one that key is empty, and what
is left is a salted hash: who reads the bucket cannot turn it back, but who can write there could make a key.
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
_MARK_BYTES: Final = 32
_MARK_KEY: Final = secrets.token_bytes(_MARK_BYTES)
KEY_ID_EXPECTED: Final = "wanted the 16 hexadecimal digits that `api-key list` shows"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A key in the clear; without a repr, so that it does not end up in a log."""

    key_id: str
    secret: str

    def text(self) -> str:
        return f"pyoco_{self.key_id}_{self.secret}"

    @classmethod
    def parse(cls, text: str) -> "Token | None":
        found = _TOKEN.fullmatch(text)
        return None if found is None else cls(found[1], found[2])


def new_token(key_id: str = "") -> Token:
    """A fresh secret, for a new key unless an id is given."""
    return Token(key_id or secrets.token_hex(_KEY_ID_BYTES), secrets.token_hex(_SECRET_BYTES))


def is_key_id(text: str) -> bool:
    return _KEY_ID.fullmatch(text) is not None


def stored_secret(token: Token, pepper: str) -> StoredSecret:
    salt = secrets.token_hex(_SALT_BYTES)
    return StoredSecret(salt=salt, digest=digest_of(token.secret, salt, pepper.encode()))


def digest_of(secret: str, salt: str, pepper: bytes) -> str:
    return hmac.digest(pepper, f"{salt}:{secret}".encode(), "sha256").hex()


def fingerprint(text: str) -> bytes:
    """Stands for a key in the memory of this process: a tenth of the work of `digest_of`, and no secret.

    Its hash has a key that nobody knows, so that looking for a mark tells nothing by the time that it takes.
    """
    return blake2b(text.encode(), digest_size=_MARK_BYTES, key=_MARK_KEY).digest()


def same(one: str, other: str) -> bool:
    """Compared in a time that tells nothing about how far they are alike."""
    return hmac.compare_digest(one, other)
