"""Where settings come from and what they show: the environment file, unknown variables, secrets."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.config.setting import is_loopback
from pyoco_server.errors import ConfigError
from tests.unit.config.test_config import complaint, from_env


class TestEnvironmentFile:
    @pytest.fixture(autouse=True)
    def _inside_an_empty_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("environ", "tag"),
        [
            ({}, "from-file"),
            ({"PYOCO_DEFAULT_TAG": "real"}, "real"),
            ({"PYOCO_DEFAULT_TAG": ""}, "default"),
            *(({"PYOCO_LOAD_DOTENV": off}, "default") for off in ("0", "false", "off")),
        ],
    )
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    def test_the_environment_overrides_or_disables_the_file(
        self, environ: dict[str, str], tag: str, encoding: str
    ) -> None:
        lines = "PYOCO_DEFAULT_TAG=from-file\n# settings\nPYOCO_NATS_REPLICAS=3\nOTHER=1\n"
        Path(".env").write_text(lines, encoding=encoding)
        config = NatsBackendConfig.from_env(environ)
        assert config.default_tag == tag
        assert config.nats_replicas == (1 if "PYOCO_LOAD_DOTENV" in environ else 3)

    def test_the_default_file_may_be_missing(self) -> None:
        assert NatsBackendConfig.from_env({}) == NatsBackendConfig()

    def test_a_file_that_was_named_is_read(self) -> None:
        Path("team.env").write_text("PYOCO_DEFAULT_TAG=team\n", encoding="utf-8")
        config = NatsBackendConfig.from_env({"PYOCO_ENV_FILE": "team.env"})
        assert (config.default_tag, config.env_file) == ("team", "team.env")

    @pytest.mark.parametrize("content", [None, b"PYOCO_DEFAULT_TAG=\xff\n"])
    def test_a_file_that_was_named_must_be_readable(self, content: bytes | None) -> None:
        if content is not None:
            Path("team.env").write_bytes(content)
        with pytest.raises(ConfigError, match=r"PYOCO_ENV_FILE='team.env': expected a readable file \("):
            NatsBackendConfig.from_env({"PYOCO_ENV_FILE": "team.env"})

    def test_a_default_file_that_cannot_be_read_is_reported(self) -> None:
        Path(".env").mkdir()
        with pytest.raises(ConfigError, match=r"PYOCO_ENV_FILE='.env': expected a readable file \("):
            NatsBackendConfig.from_env({})

    def test_its_bad_values_are_reported_like_any_other(self) -> None:
        Path(".env").write_text("PYOCO_LOG_LEVEL=loud\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="PYOCO_LOG_LEVEL='loud'"):
            NatsBackendConfig.from_env({"PYOCO_LOAD_DOTENV": "1"})

    def test_a_bad_switch_is_reported_and_nothing_is_read(self) -> None:
        Path(".env").write_text("PYOCO_LOG_LEVEL=loud\n", encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            NatsBackendConfig.from_env({"PYOCO_LOAD_DOTENV": "perhaps"})
        assert [problem.field for problem in caught.value.problems] == ["PYOCO_LOAD_DOTENV"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("PYOCO_NATS_ULR", "; did you mean PYOCO_NATS_URL?"), ("PYOCO_QQQQ", "")],
    ids=["similar to a setting", "similar to none"],
)
def test_an_unknown_variable_is_reported_without_its_value(
    name: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    from_env(**{name: "hunter22"})
    assert caplog.messages == [f"{name} is not a setting of this product and has no effect{hint}"]
    assert caplog.records[0].levelno == logging.WARNING


def test_variables_of_other_programs_and_the_engine_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    from_env(HOME="/home/x", PYOCO_DISCOVERY_MODULES="my.tasks", PYOCO_CUTE="1")
    assert caplog.messages == []


class TestSecrets:
    CONFIG = NatsBackendConfig(nats_url="nats://alice:hunter22@h:4222", auth_pepper="cayenne99")

    def test_repr_shows_no_secret(self) -> None:
        assert (self.CONFIG.nats_url, self.CONFIG.auth_pepper) == (
            "nats://alice:hunter22@h:4222",
            "cayenne99",
        )
        shown = repr(self.CONFIG)
        assert "nats_url='nats://h:4222'" in shown
        assert "auth_pepper='[redacted]'" in shown
        for secret in ("alice", "hunter22", "cayenne99"):
            assert secret not in shown

    def test_an_error_shows_no_secret(self) -> None:
        told = complaint(PYOCO_NATS_URL="nats://alice:hunter22@h:99999999", PYOCO_AUTH_PEPPER="  ")
        assert "PYOCO_NATS_URL='nats://h:99999999'" in told
        assert "PYOCO_AUTH_PEPPER='[redacted]'" in told
        assert "hunter22" not in told

    @pytest.mark.parametrize(
        ("url", "safe"),
        [
            ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
            ("nats://token@h:4222", "nats://h:4222"),
            ("nats://u:p@ss/word@h:4222", "nats://h:4222"),
            ("tls://u:p,w@a:1,tls://u:p@b:2", "tls://a:1,tls://b:2"),
            ("u:p@h", "h"),
        ],
    )
    def test_safe_url(self, url: str, safe: str) -> None:
        assert safe_url(url) == safe

    @given(user=st.text(), password=st.text())
    def test_safe_url_keeps_nothing_of_any_password(self, user: str, password: str) -> None:
        assert safe_url(f"nats://{user}:{password}@h:1") == "nats://h:1"

    def test_a_list_of_servers_is_split(self) -> None:
        config = NatsBackendConfig(nats_url="nats://u:p,w@a:1, nats://b:2")
        assert config.nats_servers == ["nats://u:p,w@a:1", "nats://b:2"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_an_address_that_other_machines_can_reach(host: str) -> None:
    assert not is_loopback(host)
