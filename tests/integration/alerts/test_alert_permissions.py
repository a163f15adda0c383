"""Alerts with the NATS rights that `nats-config` prints."""

import pytest

from tests.integration.alerts.alerting import FAST, fail, is_delivered, save, webhook
from tests.support.running.gateway import running_gateway
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.running.installation import Installation, installation, started, violations
from tests.support.webhooks import webhook_receiver

__all__ = ["installation", "started"]


async def test_a_gateway_with_restricted_rights_fires_alerts(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    settings = installation.settings("gateway", secrets_keys=SECRETS_KEY, **FAST)
    with webhook_receiver() as receiver:
        async with running_gateway(settings) as gateway:
            await save(
                gateway, "orders", condition="run_failed", flow_name="orders", channels=[webhook(receiver)]
            )
            await fail(gateway, "orders")
            await is_delivered(gateway, "orders")
            assert (await gateway.http.delete("/alerts/orders")).status_code == 200
    assert violations(caplog) == []
