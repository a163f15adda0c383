"""Secrets are stored encrypted: which key encrypts, which decrypt, and what is said without one."""

import stat
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, NoSecretsKey, SecretUnreadable
from pyoco_server.triggers.secret_keys import box_of, ensure_key_file, new_key, with_own_secrets_key
from pyoco_server.triggers.secrets_at_rest import SecretBox


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old, new = new_key(), new_key()
    stored_before = SecretBox([old]).encrypt("s3cret")
    both = SecretBox([new, old])
    assert both.decrypt(stored_before) == "s3cret"
    assert not both.is_current(stored_before)
    stored_now = both.encrypt("s3cret")
    assert both.is_current(stored_now)
    assert SecretBox([new]).decrypt(stored_now) == "s3cret"
    assert "s3cret" not in stored_now


def test_equal_secrets_are_stored_differently() -> None:
    box = SecretBox([new_key()])
    assert box.encrypt("s3cret") != box.encrypt("s3cret")


def test_another_key_does_not_decrypt() -> None:
    stored = SecretBox([new_key()]).encrypt("s3cret")
    with pytest.raises(SecretUnreadable, match="does not fit"):
        SecretBox([new_key()]).decrypt(stored)
    with pytest.raises(SecretUnreadable, match="PYOCO_SECRETS_KEYS"):
        SecretBox([]).decrypt(stored)


@pytest.mark.parametrize("stored", ["", "s3cret", "gAAAAA", "日本"])
def test_what_is_no_ciphertext_cannot_be_decrypted(stored: str) -> None:
    with pytest.raises(SecretUnreadable):
        SecretBox([new_key()]).decrypt(stored)


def test_a_changed_ciphertext_cannot_be_decrypted() -> None:
    box = SecretBox([new_key()])
    stored = box.encrypt("s3cret")
    changed = stored[:40] + ("A" if stored[40] != "A" else "B") + stored[41:]
    with pytest.raises(SecretUnreadable):
        box.decrypt(changed)


def test_without_a_key_the_error_names_the_cure() -> None:
    with pytest.raises(NoSecretsKey) as raised:
        SecretBox([]).encrypt("s3cret")
    assert "PYOCO_SECRETS_KEYS" in raised.value.sentence()
    assert "secrets create-key" in raised.value.error.cure_en


def test_keys_of_the_settings_are_separated_by_commas() -> None:
    old, new = new_key(), new_key()
    box = box_of(NatsBackendConfig(secrets_keys=f" {new} , {old},"))
    assert box.decrypt(SecretBox([old]).encrypt("s3cret")) == "s3cret"
    assert box.is_current(SecretBox([new]).encrypt("s3cret"))


A_KEY = "dlVyFZ4dnq-6wml29GwLGkEYCmBulDx7POxcigbow-M="


@pytest.mark.parametrize("keys", ["short", A_KEY[:-1], f"{A_KEY},x", ","])
def test_a_key_of_another_form_is_rejected_without_being_shown(keys: str) -> None:
    with pytest.raises(ConfigError) as raised:
        NatsBackendConfig(secrets_keys=keys)
    assert "PYOCO_SECRETS_KEYS" in str(raised.value)
    assert "create-key" in str(raised.value)
    assert f"={keys!r}" not in str(raised.value)


def test_a_key_file_is_created_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    path = ensure_key_file(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_text()
    assert ensure_key_file(folder) == path
    assert path.read_text() == content
    assert [each.name for each in folder.iterdir()] == ["secrets.key"]


def test_the_embedded_server_brings_a_key_of_its_own(tmp_path: Path) -> None:
    config = with_own_secrets_key(NatsBackendConfig(nats_data_dir=str(tmp_path)))
    again = with_own_secrets_key(NatsBackendConfig(nats_data_dir=str(tmp_path)))
    assert box_of(again).decrypt(box_of(config).encrypt("s3cret")) == "s3cret"


def test_a_configured_key_stays_also_with_the_embedded_server(tmp_path: Path) -> None:
    config = NatsBackendConfig(nats_data_dir=str(tmp_path), secrets_keys=new_key())
    assert with_own_secrets_key(config) is config
    assert list(tmp_path.iterdir()) == []


def test_a_key_file_has_one_key_per_line(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    path = tmp_path / "keys"
    path.write_text(f"{new}\n{old}\n")
    box = box_of(NatsBackendConfig(secrets_key_file=str(path)))
    assert box.is_current(SecretBox([new]).encrypt("s3cret"))
    assert box.decrypt(SecretBox([old]).encrypt("s3cret")) == "s3cret"


@pytest.mark.parametrize("content", [None, "", "no key\n"])
def test_an_unusable_key_file_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="PYOCO_SECRETS_KEY_FILE"):
        box_of(NatsBackendConfig(secrets_key_file=str(path)))
