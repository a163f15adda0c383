"""Alerts for tests."""

from typing import Any

from pyoco_server.records.monitoring.alert_models import (
    AlertChannel,
    AlertCondition,
    AlertRecord,
    AlertRule,
    ChannelKind,
)

NOW = 1_800_000_000.0


def an_alert(rule: AlertRule | None = None, **fields: Any) -> AlertRecord:
    """By default of three failures of `orders` within an hour, with one webhook."""
    default = AlertRule(condition=AlertCondition.FAILURES, flow_name="orders", count=3, window_sec=3600.0)
    known = {
        "alert_id": "orders-failing",
        "incarnation": "0123456789abcdef",
        "created_at": NOW,
        "updated_at": NOW,
        "channels": [AlertChannel(name="ops", kind=ChannelKind.WEBHOOK)],
        "cool_down_sec": 300.0,
    }
    return AlertRecord(rule=rule or default, **{**known, **fields})
