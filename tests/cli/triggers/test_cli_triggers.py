"""`pyoco-client events`, `templates`, `actions` and `hooks`: tables, JSON, samples that start nothing."""

import json
import time

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC, eventually_sync

YM = ("--year", "2026", "--month", "11")


def template(client: ClientCommand, template_id: str, *words: str) -> None:
    client.json("actions", "create", "close_month", "--flow-name", "chain", "--param", "x=4")
    name = ("--name", f"Close {template_id}")
    client.json("templates", "create", template_id, *name, "--action", "close_month", *words)


def test_a_template_is_created_changed_tested_and_deleted(client: ClientCommand) -> None:
    template(client, "cli-close", "--month", "10", "--overlap", "forbid", "--then", "send_report")
    shown = client.table("templates", "get", "cli-close")
    assert "close_month: external_event" in shown
    assert "send_report: after_previous" in shown
    changed = client.json("templates", "update", "cli-close", "--year", "2027", "--notes", "n")
    assert (changed["year"], changed["month"], changed["notes"]) == (2027, 10, "n")
    assert (changed["overlap"], len(changed["steps"])) == ("forbid", 2)
    assert "cli-close" in client.table("templates", "list", "--search", "cli-close")

    sample = json.dumps({"idempotency_key": "k-1", "payload": {"rows": 3}})
    tested = client.json("templates", "test", "cli-close", "--json", sample)
    assert (tested["flow_name"], tested["idempotency_key"], tested["problem"]) == ("chain", "k-1", None)
    assert (tested["params"]["x"], tested["params"]["payload"]) == (4, {"rows": 3})
    refused = client.table("templates", "test", "cli-close", "--json", '{"year": 1999, "month": 1}')
    assert "400 Workflow event requires valid year/month." in refused
    assert client.json("events", "summary", "--month", "2027-10")["total"] == 0
    assert client.json("templates", "delete", "cli-close")["deleted"] is True
    assert "ERR-PYOCO-0055" in client("templates", "get", "cli-close").stderr


def test_an_event_starts_one_run_per_key(client: ClientCommand, http: PyocoHttpClient) -> None:
    template(client, "cli-once")
    send = ("events", "send", "--template", "cli-once", "--key", "once-1", *YM, "--json", '{"a": 1}')
    first = client.json(*send)
    assert (first["triggered"], first["action_key"]) == (True, "close_month")
    assert "yes; it was sent before" in client.table(*send)
    run = http.wait(first["run_id"], LIMIT_SEC)
    assert run["cause"]["id"] == "template:cli-once"
    listed = client.json("list", "--cause", "event:template:cli-once")
    assert [each["run_id"] for each in listed] == [first["run_id"]]

    counted = client.json("events", "summary", "--month", "2026-11")
    assert counted["by_status"]["success"] >= 1
    assert counted["duplicate"]["true"] >= 1
    shown = client.table("events", "summary", "--month", "2026-11")
    assert "duplicate_idempotency_key" in shown
    assert "receipts" in shown
    recent = client.json("events", "recent", "--month", "2026-11", "--limit", "50")
    assert {"success", "skipped"} <= {
        each["status"] for each in recent if each["idempotency_key"] == "once-1"
    }


def test_the_retry_queue_is_shown_and_drained(client: ClientCommand) -> None:
    template(client, "cli-busy", "--overlap", "forbid")
    # No worker has the tag: the run stays open.
    client.json("actions", "create", "hold", "--flow-name", "chain", "--tag", "nobody")
    client.json("templates", "update", "cli-busy", "--action", "hold")
    client.json("events", "send", "--template", "cli-busy", "--key", "busy-1", *YM)
    refused = client("events", "send", "--template", "cli-busy", "--key", "busy-2", *YM)
    assert (refused.returncode, "409" in refused.stderr) == (1, True)
    jobs = client.json("events", "retry-jobs")
    [job] = [each for each in jobs["jobs"] if each["idempotency_key"] == "busy-2"]
    assert (job["status"], job["attempts"]) == ("pending", 0)
    assert "cli-busy" in client.table("events", "retry-jobs")
    drained = client.json("events", "drain", "--force")
    assert (drained["processed"], drained["retrying"]) == (1, 1)
    assert "remaining_due" in client.table("events", "drain")
    client.json("templates", "delete", "cli-busy")
    assert client.json("events", "drain", "--force")["discarded"] == 1


def test_the_notification_settings(client: ClientCommand) -> None:
    assert client.json("events", "notification")["configured"] is False
    url = "https://chat.googleapis.com/v1/spaces/AAAABBBBCCCC/messages?key=secret-key-1&token=secret-token-1"
    saved = client("events", "notification-set", "--webhook-url", "-", stdin=f"{url}\n")
    assert saved.returncode == 0, saved.stderr
    assert "secret-key-1" not in saved.stdout
    shown = client.table("events", "notification")
    assert "chat.googleapis.com" in shown
    assert "secret-token-1" not in shown
    assert client.json("events", "notification-set", "--clear")["configured"] is False
    untested = client("events", "notification-test")
    assert "Google Chat webhook is not configured." in untested.stderr


def test_actions_are_listed_and_deleted(client: ClientCommand) -> None:
    client.json(
        "actions", "create", "cli-report", "--flow-name", "chain", "--tag", "default", "--tags", "a,b"
    )
    rows = client.json("actions", "list")
    [row] = [each for each in rows if each["key"] == "cli-report"]
    assert (row["flow_name"], row["tags"], row["implied"]) == ("chain", ["a", "b"], False)
    assert "cli-report" in client.table("actions", "list")
    assert "stored" in client.table("actions", "get", "cli-report")
    assert client.json("actions", "delete", "cli-report")["deleted"] is True
    assert "ERR-PYOCO-0070" in client("actions", "get", "cli-report").stderr


def test_a_hook_is_created_and_its_deliveries_are_seen(
    client: ClientCommand, http: PyocoHttpClient, server: str
) -> None:
    create = ("hooks", "create", "cli-orders", "--kind", "token", "--flow-name", "chain")
    made = client.json(*create, "--map", "x=/order/id", "--only-if", "/live=true", "--note", "of the shop")
    assert (made["map"], made["only_if"]) == ({"x": "/order/id"}, {"/live": True})
    assert len(made["secret"]) >= 8
    shown = client.table("hooks", "get", "cli-orders")
    assert f"{server}/hooks/cli-orders" in shown
    assert made["secret"] not in shown
    tested = client.json("hooks", "test", "cli-orders", "--json", '{"order": {"id": 7}, "live": true}')
    assert (tested["matched"], tested["params"]) == (True, {"x": 7})
    assert "do not match" in client.table("hooks", "test", "cli-orders", "--json", '{"live": false}')
    assert client.json("hooks", "deliveries", "cli-orders") == []

    headers = {"x-hook-token": made["secret"], "idempotency-key": "order-7"}
    body = {"order": {"id": 7}, "live": True}
    sent = httpx.post(f"{server}/hooks/cli-orders", json=body, headers=headers)
    assert sent.status_code == 202, sent.text
    run_id = sent.json()["run_id"]
    assert http.wait(run_id, LIMIT_SEC)["cause"]["id"] == "hook:cli-orders"
    [item] = eventually_sync(
        lambda: client.json("hooks", "deliveries", "cli-orders"), describe="the delivery is kept"
    )
    assert (item["status"], item["run_id"]) == ("started", run_id)
    number = str(item["delivery_id"])
    shown = client.table("hooks", "deliveries", "cli-orders", "--id", number)
    assert '"order"' in shown
    assert made["secret"] not in shown
    assert client.json("hooks", "redeliver", "cli-orders", number)["duplicate"] is True
    again = client.json("hooks", "redeliver", "cli-orders", number, "--new-run")
    assert again["run_id"] not in (None, run_id)
    assert "started" in client.table("hooks", "deliveries", "cli-orders", "--status", "started")


def test_a_secret_is_rotated_with_two_valid_ones(client: ClientCommand, server: str) -> None:
    made = client.json("hooks", "create", "cli-rotated", "--kind", "token", "--flow-name", "chain")
    rotated = client("hooks", "rotate", "cli-rotated", "--output", "table")
    assert "The secret is shown only once" in rotated.stdout
    statuses = []
    for finish in (False, True):
        if finish:
            client.json("hooks", "rotate", "cli-rotated", "--finish")
        headers = {"x-hook-token": made["secret"], "idempotency-key": f"r-{time.time()}"}
        statuses.append(httpx.post(f"{server}/hooks/cli-rotated", json={}, headers=headers).status_code)
    assert statuses == [202, 401]
    update = client.json("hooks", "update", "cli-rotated", "--overlap", "skip", "--map", "x=header:X-Id")
    assert (update["overlap"], update["map"]) == ("skip", {"x": "header:X-Id"})
    stale = client("hooks", "update", "cli-rotated", "--note", "n", "--revision", "1")
    assert "ERR-PYOCO-0061" in stale.stderr
    assert "cli-rotated" in client.table("hooks", "list", "--kind", "token")
    assert client.json("hooks", "delete", "cli-rotated") == {"hook_id": "cli-rotated", "deleted": True}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("hooks", "create", "a", "--kind", "fax", "--flow-name", "chain"), "expected one of token, github"),
        (
            ("hooks", "create", "a.b", "--kind", "token", "--flow-name", "c"),
            "'a.b': expected 1 to 64 letters",
        ),
        (
            ("hooks", "create", "a", "--kind", "token", "--flow-name", "c", "--map", "/x"),
            "expected NAME=VALUE",
        ),
        (("hooks", "update", "a"), "say what changes"),
        (("hooks", "rotate", "a", "--finish", "--keep", "1h"), "leave out --keep and --secret"),
        (("hooks", "test", "a", "--json", "{"), "--json"),
        (("templates", "create", "a", "--name", "A"), "a template needs --name and --action"),
        (("templates", "update", "a"), "say what changes"),
        (("templates", "test", "a", "--json", "[]"), "expected a JSON object"),
        (("actions", "get", "a b"), "expected 1 to 48 letters"),
        (("events", "drain", "--limit", "51"), "less than or equal to 50"),
        (("events", "notification-set"), "use either --webhook-url or --clear"),
        (("events", "send", "--template", "a.b"), "expected 1 to 64 letters"),
    ],
)
def test_a_usage_error_says_what_is_expected(
    client: ClientCommand, words: tuple[str, ...], says: str
) -> None:
    done = client(*words)
    assert done.returncode == 1
    assert says in done.stderr
