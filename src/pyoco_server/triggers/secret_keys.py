"""The keys of stored secrets: from the settings, or from a file in the data folder of an embedded server."""

import os
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyoco_server.config import NatsBackendConfig
from pyoco_server.config.setting import SECRETS_KEYS
from pyoco_server.errors import ConfigError, FieldProblem, shortened
from pyoco_server.triggers.secrets_at_rest import SecretBox

KEY_FILE_NAME: Final = "secrets.key"
_FILE_SETTING: Final = "PYOCO_SECRETS_KEY_FILE"


def new_key() -> str:
    from cryptography.fernet import Fernet  # noqa: PLC0415 - 8 MB, for a gateway that creates no key

    return Fernet.generate_key().decode()


def box_of(config: NatsBackendConfig) -> SecretBox:
    """With the keys of the settings; ConfigError if the file of keys cannot be used."""
    return SecretBox(_parts(config.secrets_keys) or _keys_in_file(config.secrets_key_file))


def with_own_secrets_key(config: NatsBackendConfig) -> NatsBackendConfig:
    """The settings for a gateway with an embedded server: without a key, they name one beside its data."""
    if config.secrets_keys or config.secrets_key_file:
        return config
    return replace(config, secrets_key_file=str(ensure_key_file(Path(config.nats_data_dir))))


def ensure_key_file(folder: Path) -> Path:
    """The file of keys in this folder, created if it is missing: only its owner can read it."""
    path = folder.absolute() / KEY_FILE_NAME
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # mkstemp creates it with 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=KEY_FILE_NAME)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{new_key()}\n")
            file.flush()
            os.fsync(file.fileno())
        # Whole or not at all, and never in place of one that another program has created meanwhile.
        with suppress(FileExistsError):
            Path(path).hardlink_to(temporary)
    finally:
        Path(temporary).unlink()
    return path


def _keys_in_file(name: str) -> list[str]:
    if not name:
        return []
    try:
        text = Path(name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(name, f"a file that can be read ({error})") from error
    keys = _parts(text.replace("\n", ","))
    if not keys or not SECRETS_KEYS.fits(",".join(keys)):
        raise _unusable(name, "keys of `pyoco-server-admin secrets create-key`, one per line")
    return keys


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _unusable(name: str, expected: str) -> ConfigError:
    # The path, never the content of the file.
    problem = FieldProblem(_FILE_SETTING, f"expected {expected}", value=shortened(name, 200))
    return ConfigError(problems=[problem])
