"""Which fields of an alert are refused, how its secrets are stored, and which addresses it may send to."""

import ipaddress
from typing import Any

import httpx
import pytest

from pyoco_server.alerts.alert_checks import AddressCheck, GivenChannel, checked_channels, checked_rule
from pyoco_server.errors import InvalidRequest, NoSecretsKey
from pyoco_server.notify.public_addresses import AddressRefused, PublicTransport, allowed_networks, refusal_of
from pyoco_server.records.monitoring.alert_models import AlertChannel, AlertCondition, AlertRule, ChannelKind
from pyoco_server.triggers.secret_keys import new_key
from pyoco_server.triggers.secrets_at_rest import SecretBox

BOX = SecretBox([new_key()])
URL = "https://hooks.slack.com/services/T000/B000/very-secret"


def stored(
    *given: GivenChannel, before: list[AlertChannel] | None = None, **options: Any
) -> list[AlertChannel]:
    options = {"has_mail": True, "refusal": AddressCheck(""), **options}
    return checked_channels(given, before or [], options.pop("box", BOX), **options)


def problems(*given: GivenChannel, **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        stored(*given, **options)
    assert "very-secret" not in str(refused.value)
    return {each.field: each.message for each in refused.value.problems}


def test_a_rule_gets_its_defaults() -> None:
    rule = checked_rule(AlertRule(condition=AlertCondition.FAILURE_RATE, flow_name="orders", percent=50))
    assert (rule.window_sec, rule.min_runs) == (3600.0, 10)


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"condition": AlertCondition.RUN_FAILED}, {"flow_name"}),
        ({"condition": AlertCondition.RUN_FAILED, "flow_name": "a", "tag": "gpu"}, {"tag"}),
        ({"condition": AlertCondition.FAILURES, "flow_name": "a"}, {"count"}),
        ({"condition": AlertCondition.FAILURE_RATE, "flow_name": "a", "count": 3}, {"percent", "count"}),
        ({"condition": AlertCondition.QUEUE_AGE}, {"tag", "after_sec"}),
        (
            {"condition": AlertCondition.NO_WORKER, "tag": "gpu", "after_sec": 9, "flow_name": "a"},
            {"flow_name"},
        ),
    ],
)
def test_fields_that_a_condition_needs_or_does_not_use_are_named(
    fields: dict[str, Any], refused: set[str]
) -> None:
    with pytest.raises(InvalidRequest) as error:
        checked_rule(AlertRule(**fields))
    assert {each.field for each in error.value.problems} == refused


def test_a_url_is_stored_encrypted_with_its_host_and_fingerprint() -> None:
    [channel] = stored(GivenChannel("ops", ChannelKind.SLACK, url=URL))
    assert channel.url is not None
    assert "very-secret" not in channel.url
    assert BOX.decrypt(channel.url) == URL
    assert channel.host == "hooks.slack.com"
    assert len(channel.fingerprint) == 12


def test_a_url_and_secret_that_are_left_out_stay() -> None:
    [before] = stored(GivenChannel("ops", ChannelKind.WEBHOOK, url="https://example.com/x", secret="s3cret"))
    [after] = stored(GivenChannel("ops", ChannelKind.WEBHOOK), before=[before])
    assert after == before
    [again] = stored(
        GivenChannel("ops", ChannelKind.WEBHOOK, url="https://example.com/x", secret="s3cret"),
        before=[before],
    )
    assert again == before
    [unsigned] = stored(GivenChannel("ops", ChannelKind.WEBHOOK, secret=""), before=[before])
    assert (unsigned.signed, unsigned.secret, unsigned.url) == (False, None, before.url)


def test_a_channel_of_another_kind_does_not_inherit_a_url() -> None:
    [before] = stored(GivenChannel("ops", ChannelKind.SLACK, url=URL))
    assert set(problems(GivenChannel("ops", ChannelKind.WEBHOOK), before=[before])) == {"channels[0].url"}


def test_without_a_key_no_secret_is_stored() -> None:
    with pytest.raises(NoSecretsKey):
        stored(GivenChannel("ops", ChannelKind.SLACK, url=URL), box=SecretBox([]))
    assert stored(GivenChannel("ops", ChannelKind.MAIL, to=["ops@example.com"]), box=SecretBox([]))


@pytest.mark.parametrize(
    ("channel", "field"),
    [
        (GivenChannel("a", ChannelKind.WEBHOOK), "channels[0].url"),
        (GivenChannel("a", ChannelKind.WEBHOOK, url="ftp://example.com/very-secret"), "channels[0].url"),
        (GivenChannel("a", ChannelKind.WEBHOOK, url="https:///very-secret"), "channels[0].url"),
        (GivenChannel("a", ChannelKind.WEBHOOK, url="https://example.com/very-secret x"), "channels[0].url"),
        (GivenChannel("a", ChannelKind.WEBHOOK, url="http://169.254.169.254/very-secret"), "channels[0].url"),
        (GivenChannel("a", ChannelKind.SLACK, url="http://[::1]/very-secret"), "channels[0].url"),
        (GivenChannel("a", ChannelKind.SLACK, url=URL, secret="key"), "channels[0].secret"),
        (GivenChannel("a", ChannelKind.SLACK, url=URL, to=["a@example.com"]), "channels[0].to"),
        (
            GivenChannel("a", ChannelKind.GOOGLE_CHAT, url="https://example.com/very-secret"),
            "channels[0].url",
        ),
        (GivenChannel("a", ChannelKind.MAIL), "channels[0].to"),
        (GivenChannel("a", ChannelKind.MAIL, to=["ops@example.com\r\nBcc: x"]), "channels[0].to[0]"),
        (GivenChannel("a", ChannelKind.MAIL, to=["nobody"]), "channels[0].to[0]"),
        (GivenChannel("a", ChannelKind.MAIL, to=["a@example.com"], url=URL), "channels[0].url"),
    ],
)
def test_what_is_wrong_with_a_channel_is_named_without_its_secrets(channel: GivenChannel, field: str) -> None:
    assert set(problems(channel)) == {field}


def test_mail_needs_a_mail_server() -> None:
    found = problems(GivenChannel("a", ChannelKind.MAIL, to=["ops@example.com"]), has_mail=False)
    assert "PYOCO_SMTP_HOST" in found["channels[0].kind"]


def test_two_channels_have_two_names() -> None:
    channel = GivenChannel("a", ChannelKind.SLACK, url=URL)
    assert set(problems(channel, channel)) == {"channels[1].name"}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "fec0::1",
    ],
)
def test_an_address_inside_is_refused_unless_its_network_is_allowed(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert "PYOCO_ALERT_NETWORKS" in (refusal_of(parsed, []) or "")
    allowed = allowed_networks("0.0.0.0/0, ::/0")
    assert refusal_of(parsed, allowed) is None


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_a_public_address_is_accepted(address: str) -> None:
    assert refusal_of(ipaddress.ip_address(address), []) is None


async def test_a_name_that_is_resolved_to_an_address_inside_is_refused() -> None:
    async with httpx.AsyncClient(transport=PublicTransport([])) as client:
        with pytest.raises(AddressRefused) as refused:
            await client.post("http://localhost:1/very-secret")
    assert "127.0.0.1" not in str(refused.value)
