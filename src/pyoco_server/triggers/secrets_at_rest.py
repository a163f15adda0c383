"""Encrypts secrets before they are stored, under keys of the installation that NATS never sees.

The first key encrypts, and all of them decrypt: a new key is put in front of the old one, the stored secrets
are encrypted again (`pyoco-server-admin secrets rotate`), and then the old key can be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pyoco_server.errors import NoSecretsKey, SecretUnreadable

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


class SecretBox:
    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    @property
    def has_key(self) -> bool:
        return bool(self._keys)

    @property
    def key_count(self) -> int:
        return len(self._keys)

    @cached_property
    def _fernets(self) -> list[Fernet]:
        from cryptography.fernet import Fernet  # noqa: PLC0415 - 8 MB, and most gateways have no secrets

        return [Fernet(key) for key in self._keys]

    def require_key(self) -> None:
        """NoSecretsKey if nothing can be encrypted."""
        if not self._keys:
            raise NoSecretsKey("neither PYOCO_SECRETS_KEYS nor PYOCO_SECRETS_KEY_FILE is set")

    def encrypt(self, secret: str) -> str:
        """NoSecretsKey if there is no key."""
        self.require_key()
        return self._fernets[0].encrypt(secret.encode()).decode()

    def decrypt(self, encrypted: str) -> str:
        """SecretUnreadable if none of the keys is the right one."""
        if not self._keys:
            raise SecretUnreadable(self._why())
        from cryptography.fernet import InvalidToken, MultiFernet  # noqa: PLC0415 - see above

        try:
            return MultiFernet(self._fernets).decrypt(encrypted.encode()).decode()
        except (InvalidToken, ValueError):
            raise SecretUnreadable(self._why()) from None

    def is_current(self, encrypted: str) -> bool:
        """Whether it is encrypted with the first key."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - see above

        try:
            self._fernets[0].decrypt(encrypted.encode())
        except InvalidToken:
            return False
        return True

    def _why(self) -> str:
        count = len(self._keys)
        if not count:
            return "neither PYOCO_SECRETS_KEYS nor PYOCO_SECRETS_KEY_FILE is set"
        return f"none of the {count} keys fits" if count > 1 else "the only key does not fit"
