"""The commands `nats-config` and `nats-setup`: what they print, take and make."""

import asyncio
import json
import logging
from pathlib import Path

import nkeys
import pytest
from typer.testing import CliRunner

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.connections import connected
from tests.support.running.installation import printed

# The command itself


def test_passwords_are_random_and_not_in_the_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    first, second = (
        CliRunner().invoke(admin_app, ["nats-config"]).stdout.partition("\naccounts: ") for _ in range(2)
    )
    passwords = [
        user["password"]
        for text in (first[2], second[2])
        for account in json.loads(text).values()
        for user in account["users"]
    ]
    assert len(set(passwords)) == len(passwords) == 6
    assert not any(password in first[0] + second[0] for password in passwords)
    assert all(len(password) >= 32 for password in passwords)


def test_a_file_is_readable_by_its_owner_only_and_never_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    path = tmp_path / "users.conf"
    result = CliRunner().invoke(admin_app, ["nats-config", "--file", str(path)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.stat().st_mode & 0o777 == 0o600
    written = path.read_text()
    assert "PYOCO_worker" in json.loads(written.partition("\naccounts: ")[2])
    again = CliRunner().invoke(admin_app, ["nats-config", "--file", str(path)])
    assert "expected the path of a new file" in str(again.exception)
    assert path.read_text() == written


def test_the_configuration_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_RUNS_KV_BUCKET", "other_runs")
    monkeypatch.setenv("PYOCO_JOURNAL_SUBJECT_PREFIX", "other.journal")
    text = json.dumps(printed())
    assert "pyoco_runs" not in text
    assert "KV_other_runs" in text
    assert '"other.journal.*.*"' in text


def test_given_keys_and_hashes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    public = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)).public_key.decode()
    hashed = "$2a$11$" + "x" * 53
    accounts = printed("--nkey", f"worker={public}", "--password-hash", f"gateway={hashed}")
    assert accounts["PYOCO_worker"]["users"] == [{"nkey": public}]
    assert [user.get("password") for user in accounts["PYOCO"]["users"]][1] == hashed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--worker", "a.b"], "--worker"),
        (["--worker", "gateway"], "neither gateway nor admin"),
        (["--worker", "w", "--worker", "w=x"], "each name once"),
        (["--nkey", "nobody=UA"], "one of the users gateway, admin, worker"),
        (["--nkey", "worker=SUASECRETSEED"], "a public nkey"),
        (["--password-hash", "worker=plain-password"], "a bcrypt hash"),
    ],
)
def test_a_bad_argument_is_refused_without_repeating_a_secret(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    result = CliRunner().invoke(admin_app, ["nats-config", *arguments])
    assert result.exit_code != 0
    assert says in str(result.exception)
    assert "SECRETSEED" not in str(result.exception)
    assert "plain-password" not in str(result.exception)


def test_setup_creates_the_streams_and_the_consumers(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    for _ in range(2):
        arguments = ["nats-setup", "--tag", "gpu", "--tag", "cpu", "--nats-url", config.nats_url]
        result = CliRunner().invoke(admin_app, arguments)
        assert result.exit_code == 0, result.output
        assert "gpu, cpu" in result.stdout

    async def consumers() -> set[str]:
        async with connected(config) as connection:
            found = await connection.client.jetstream().consumers_info("PYOCO_WORK")
            return {consumer.name for consumer in found}

    assert asyncio.run(consumers()) == {"pyoco_worker_gpu", "pyoco_worker_cpu"}
