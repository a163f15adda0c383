"""Settings: each with its default, read from the environment, and checked wherever it comes from."""

import dataclasses
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.config import SETTINGS, NatsBackendConfig, Setting
from pyoco_server.errors import ConfigError
from pyoco_server.records.value_types import TAG_PATTERN

BY_NAME = {row.name: row for row in SETTINGS}

# Spec 1, appendix I, and spec 2, section 6.
CONTRACT_DEFAULTS: dict[str, object] = {
    "PYOCO_NATS_URL": "nats://127.0.0.1:4222",
    "PYOCO_WORK_SUBJECT_PREFIX": "pyoco.work",
    "PYOCO_DEFAULT_TAG": "default",
    "PYOCO_RUNS_KV_BUCKET": "pyoco_runs",
    "PYOCO_WORKERS_KV_BUCKET": "pyoco_workers",
    "PYOCO_HTTP_AUTH_MODE": "none",
    "PYOCO_HTTP_API_KEY_HEADER": "X-API-Key",
    "PYOCO_AUTH_KV_BUCKET": "pyoco_auth",
    "PYOCO_AUTH_PEPPER": "",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": 1.0,
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": 5.0,
    "PYOCO_WORKERS_KV_TTL_SEC": 15.0,
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": 20.0,
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": 30.0,
    "PYOCO_CONSUMER_ACK_WAIT_SEC": 30.0,
    "PYOCO_CONSUMER_MAX_DELIVER": 20,
    "PYOCO_CONSUMER_MAX_ACK_PENDING": 200,
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": 10.0,
    "PYOCO_DLQ_STREAM": "PYOCO_DLQ",
    "PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.dlq",
    "PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": True,
    "PYOCO_DLQ_MAX_AGE_SEC": 604800,
    "PYOCO_DLQ_MAX_MSGS": 100000,
    "PYOCO_DLQ_MAX_BYTES": 536870912,
    "PYOCO_MAX_RUN_SNAPSHOT_BYTES": 262144,
    "PYOCO_WORKFLOW_YAML_MAX_BYTES": 262144,
    "PYOCO_WHEEL_OBJECT_STORE_BUCKET": "pyoco_wheels",
    "PYOCO_WHEEL_MAX_BYTES": 536870912,
    "PYOCO_WHEEL_SYNC_ENABLED": False,
    "PYOCO_WHEEL_SYNC_DIR": ".pyoco/wheels",
    "PYOCO_WHEEL_SYNC_INTERVAL_SEC": 10.0,
    "PYOCO_WHEEL_INSTALL_TIMEOUT_SEC": 180.0,
    "PYOCO_WHEEL_HISTORY_KV_BUCKET": "pyoco_wheel_history",
    "PYOCO_WHEEL_HISTORY_TTL_SEC": 7776000,
    "PYOCO_DASHBOARD_LANG": "auto",
    "PYOCO_LOAD_DOTENV": True,
    "PYOCO_ENV_FILE": ".env",
    "PYOCO_LOG_LEVEL": "INFO",
    "PYOCO_LOG_FORMAT": "json",
    "PYOCO_LOG_UTC": True,
    "PYOCO_LOG_INCLUDE_TRACEBACK": True,
}


def from_env(**environ: str) -> NatsBackendConfig:
    """The configuration of exactly these variables, whatever file lies in the working directory."""
    return NatsBackendConfig.from_env({"PYOCO_LOAD_DOTENV": "0", **environ})


def complaint(**environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        from_env(**environ)
    return str(caught.value)


def test_every_setting_of_the_contract_exists_with_its_default() -> None:
    """The others are compared with docs/settings.md (test_generated_docs)."""
    defaults = {row.name: repr(row.default) for row in SETTINGS if row.name in CONTRACT_DEFAULTS}
    assert defaults == {name: repr(value) for name, value in CONTRACT_DEFAULTS.items()}


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_row_is_derived_from_its_field_and_explains_itself(row: Setting) -> None:
    assert row.name in ("PYOCO_" + row.field.upper(), "AX_" + row.field.upper())
    assert getattr(NatsBackendConfig(), row.field) == row.default
    assert row.accepts(row.default)
    assert row.help.endswith(".")
    assert row.group
    assert row.expected


def test_an_empty_environment_gives_the_defaults() -> None:
    assert from_env() == dataclasses.replace(NatsBackendConfig(), load_dotenv=False)


def test_without_an_argument_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "from-process")
    assert NatsBackendConfig.from_env().default_tag == "from-process"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert from_env(PYOCO_CONSUMER_MAX_DELIVER="", PYOCO_NATS_URL="") == from_env()


def texts(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True)


NAMES = texts(r"[A-Za-z0-9_-]{1,40}")
FORMS: dict[str, st.SearchStrategy[str]] = {
    "PYOCO_NATS_URL": texts(r"(nats|tls)://[a-z]{1,9}(:[1-9][0-9]{0,3})?(,wss?://u:p@[a-z]{1,9})?"),
    **dict.fromkeys(
        ("PYOCO_SERVER", "PYOCO_PUBLIC_URL", "PYOCO_NOTIFY_URL"),
        texts(r"https?://[a-z]{1,9}(:[1-9][0-9]{0,3})?/?"),
    ),
    "PYOCO_NOTIFY_TARGETS": texts(r"[a-z]{1,9}=https?://[a-z]{1,9}/(,[0-9]{1,9}=http://[a-z]{1,9})?"),
    "PYOCO_NOTIFY_TARGET_SECRETS": texts(r"[a-z]{1,9}=[a-z]{1,9}"),
    "PYOCO_NOTIFY_FLOW_TARGETS": texts(r"[a-z]{1,9}\*?=[a-z]{1,9}(,[0-9]{1,9}=[a-z]{1,9})?"),
    "AX_GOOGLE_CHAT_WEBHOOK_URL": texts(
        r"https://chat\.googleapis\.com/v1/spaces/[A-Z]{1,9}/messages\?key=[a-z]{1,9}&token=[a-z]{1,9}"
    ),
    "PYOCO_SECRETS_KEYS": texts(r"[A-Za-z0-9_-]{43}=(, ?[A-Za-z0-9_-]{43}=)?"),
    "PYOCO_HTTP_TRUSTED_PROXIES": texts(r"10\.[1-9]\.0\.0/16(, fd0[0-9]::/64)?"),
}


def good_values(row: Setting) -> st.SearchStrategy[Any]:
    low = row.minimum if row.minimum is not None else row.above
    if row.kind == "int":
        return st.integers(int(low or 0), int(row.maximum) if row.maximum is not None else None)
    if row.kind == "float":
        return st.floats(
            low, row.maximum, exclude_min=row.above is not None, allow_nan=False, allow_infinity=False
        )
    if row.kind == "bool":
        return st.booleans()
    return st.sampled_from(row.choices) if row.choices else FORMS.get(row.name, NAMES)


# One setting for each combination of rules: what is accepted, and how it is parsed, depends on nothing else.
WITH_OTHER_RULES = {
    (row.kind, row.choices, row.minimum, row.above, row.maximum, row.form): row for row in SETTINGS
}.values()


@pytest.mark.parametrize("row", WITH_OTHER_RULES, ids=lambda row: row.name)
@given(data=st.data())
def test_a_good_value_written_as_text_is_read_back(row: Setting, data: st.DataObject) -> None:
    value = data.draw(good_values(row))
    assert row.accepts(value)
    assert row.parse(str(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [(word, True) for word in ("1", "true", "YES", "On", " true ")]
    + [(word, False) for word in ("0", "false", "NO", "Off")],
)
def test_words_for_yes_and_no(text: str, value: bool) -> None:
    assert from_env(PYOCO_WHEEL_SYNC_ENABLED=text).wheel_sync_enabled is value


def test_a_choice_is_read_in_any_case() -> None:
    config = from_env(PYOCO_LOG_LEVEL="debug", PYOCO_LOG_FORMAT="TEXT")
    assert (config.log_level, config.log_format) == ("DEBUG", "text")


@pytest.mark.parametrize(
    ("name", "text", "shown", "expected"),
    [
        ("CONSUMER_ACK_WAIT_SEC", "abc", "'abc'", "a number of seconds, at least 1 (default 30.0)"),
        ("CONSUMER_ACK_WAIT_SEC", "0.5", "0.5", "a number of seconds, at least 1 (default 30.0)"),
        (
            "NATS_REQUEST_TIMEOUT_SEC",
            "2.1",
            "2.1",
            "a number of seconds, more than 0, at most 2 (default 1.5)",
        ),
        ("CONSUMER_MAX_DELIVER", "2.5", "'2.5'", "a whole number, at least 1 (default 20)"),
        ("WHEEL_MAX_BYTES", "1GB", "'1GB'", "a whole number of bytes, at least 1 (default 536870912)"),
        ("LOG_UTC", "maybe", "'maybe'", "one of 1, 0, true, false, yes, no, on, off (default 1)"),
        ("HTTP_AUTH_MODE", "basic", "'basic'", "one of none, api_key (default none)"),
        ("DEFAULT_TAG", "a.b", "'a.b'", "1 to 64 letters, digits, _ and - (default default)"),
        (
            "SERVER",
            "localhost:8000",
            "'localhost:8000'",
            "a URL such as http://127.0.0.1:8000 (default http://127.0.0.1:8000)",
        ),
    ],
)
def test_a_bad_value_is_named_with_the_expected_form(name: str, text: str, shown: str, expected: str) -> None:
    assert complaint(**{f"PYOCO_{name}": text}) == (
        f"A command-line argument or setting is not valid: PYOCO_{name}={shown}: expected {expected}"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PYOCO_NATS_REQUEST_TIMEOUT_SEC", "0"),
        ("PYOCO_NATS_REPLICAS", "6"),
        ("PYOCO_NATS_URL", "http://127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "nats://"),
        ("PYOCO_NATS_URL", "nats://h:99999"),
        ("PYOCO_NATS_URL", "nats://h:0"),
        ("PYOCO_NATS_URL", "nats://[::1"),
        ("PYOCO_NATS_URL", "nats://a:1,http://b:2"),
        ("PYOCO_RUNS_KV_BUCKET", "pyoco.runs"),
        ("PYOCO_RUNS_KV_BUCKET", "runs\n"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco..work"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.>"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X API Key"),
        ("PYOCO_HTTP_OPERATOR_TENANT", "ops team"),
        ("PYOCO_HTTP_OPERATOR_TENANT", "ops.team"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", "http://gateway"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", "gateway,pyoco.example.com/runs"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", "*gateway"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", "*.example.com:8000"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", "gateway pyoco"),
        ("PYOCO_HTTP_ALLOWED_HOSTS", " , "),
        ("PYOCO_NATS_DATA_DIR", "  "),
    ],
)
def test_a_value_out_of_bounds_is_rejected(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_env(**{name: text})
    assert [problem.field for problem in caught.value.problems] == [name]


def test_no_setting_accepts_a_negative_or_an_infinite_number() -> None:
    numbers = [row for row in SETTINGS if row.kind in ("int", "float")]
    texts = {"int": ("-1",), "float": ("-1", "nan", "inf", "-inf", "1e999")}
    assert [
        (row.name, text) for row in numbers for text in texts[row.kind] if row.accepts(row.parse(text))
    ] == []


@pytest.mark.parametrize(
    "hosts", ["*", "gateway, pyoco.example.com ,*.inner.example", "gateway:8000,[::1]:8000,10.0.0.1", "a_b-c"]
)
def test_names_of_hosts_are_accepted(hosts: str) -> None:
    assert from_env(PYOCO_HTTP_ALLOWED_HOSTS=hosts).http_allowed_hosts == hosts


def test_all_bad_values_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        from_env(PYOCO_LOG_LEVEL="loud", PYOCO_CONSUMER_MAX_DELIVER="many", PYOCO_NATS_REPLICAS="0")
    assert {problem.field for problem in caught.value.problems} == {
        "PYOCO_LOG_LEVEL",
        "PYOCO_CONSUMER_MAX_DELIVER",
        "PYOCO_NATS_REPLICAS",
    }


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("ack_progress_interval_sec", 30.0, "less than PYOCO_CONSUMER_ACK_WAIT_SEC=30.0"),
        ("worker_heartbeat_interval_sec", 60.0, "less than PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC=20.0"),
        ("dlq_stream", "PYOCO_WORK", "a name other than PYOCO_WORK_STREAM='PYOCO_WORK'"),
        ("auth_kv_bucket", "pyoco_runs", "a name other than PYOCO_RUNS_KV_BUCKET='pyoco_runs'"),
        (
            "dlq_subject_prefix",
            "pyoco.work.dead",
            "a prefix that does not overlap with PYOCO_WORK_SUBJECT_PREFIX='pyoco.work'",
        ),
    ],
)
def test_conflicting_settings_are_rejected(field: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NatsBackendConfig(**{field: value})
    assert str(caught.value).endswith(f"not valid: PYOCO_{field.upper()}={value!r}: expected {expected}")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"nats_user": "u"}, "PYOCO_NATS_PASSWORD"),
        ({"nats_tls_cert_file": "x"}, "PYOCO_NATS_TLS_KEY_FILE"),
        ({"http_tls_key_file": "x"}, "PYOCO_HTTP_TLS_CERT_FILE"),
        ({"nats_user": "u", "nats_password": "p", "nats_creds_file": "x"}, "PYOCO_NATS_CREDS_FILE"),
        ({"nats_url": "nats://a:b@host", "nats_nkey_seed_file": "x"}, "PYOCO_NATS_URL"),
    ],
)
def test_incomplete_or_conflicting_credentials_are_rejected(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NatsBackendConfig(**given)
    assert named in str(caught.value)
    assert "a:b" not in str(caught.value)


def test_prefixes_that_only_begin_alike_do_not_overlap() -> None:
    assert NatsBackendConfig(dlq_subject_prefix="pyoco.workdead").dlq_subject_prefix == "pyoco.workdead"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("consumer_max_deliver", True),
        ("consumer_max_deliver", 2.0),
        ("consumer_ack_wait_sec", "30"),
        ("log_utc", 1),
        ("nats_url", None),
        ("log_level", "info"),
    ],
)
def test_values_given_in_code_are_checked_too(field: str, value: object) -> None:
    given_in_code: dict[str, Any] = {field: value}
    with pytest.raises(ConfigError) as caught:
        NatsBackendConfig(**given_in_code)
    assert [problem.field for problem in caught.value.problems] == ["PYOCO_" + field.upper()]


def test_a_whole_number_of_seconds_is_accepted() -> None:
    assert NatsBackendConfig(consumer_ack_wait_sec=60).consumer_ack_wait_sec == 60


def test_replace_makes_a_checked_copy() -> None:
    config = NatsBackendConfig()
    assert dataclasses.replace(config, default_tag="gpu").default_tag == "gpu"
    with pytest.raises(ConfigError):
        dataclasses.replace(config, default_tag="g.p.u")


def test_a_configuration_can_be_pickled() -> None:
    config = NatsBackendConfig(default_tag="gpu")
    assert pickle.loads(pickle.dumps(config)) == config


@given(st.text(alphabet="ab.-_ \n", max_size=70))
def test_the_default_tag_has_the_form_of_a_tag(tag: str) -> None:
    row = BY_NAME["PYOCO_DEFAULT_TAG"]
    assert row.accepts(tag) == (re.fullmatch(TAG_PATTERN.strip("^$"), tag) is not None)
