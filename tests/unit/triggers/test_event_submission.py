"""What is read from an event's body: names of fields, the idempotency key, and the month."""

from typing import Any

import msgspec
import pytest

from pyoco_server.errors import TemplateNotFound
from pyoco_server.records.triggers.trigger_models import TemplateRecord, TemplateStep, TriggerKind
from pyoco_server.records.triggers.workflow_event_models import EventInput
from pyoco_server.triggers.workflow_events.event_refusals import has_month, invalid_event_month
from pyoco_server.triggers.workflow_events.event_submission import (
    params_of,
    read_event,
    with_template_defaults,
)
from pyoco_server.triggers.workflow_events.template_resolution import resolve_template


def template(**fields: Any) -> TemplateRecord:
    step = TemplateStep(id="1", action="close", trigger_kind=TriggerKind.EXTERNAL_EVENT)
    return TemplateRecord(id="t", name="T", steps=[step], created_at=1.0, updated_at=1.0, **fields)


@pytest.mark.parametrize(
    ("body", "header", "key"),
    [
        ({}, None, None),
        ({"idempotency_key": "a", "idempotencyKey": "b", "event_id": "c", "eventId": "d"}, "e", "a"),
        ({"idempotencyKey": "b", "event_id": "c", "eventId": "d"}, "e", "b"),
        ({"event_id": "c", "eventId": "d"}, "e", "c"),
        ({"eventId": "d"}, "e", "d"),
        ({}, "e", "e"),
        # The first valid one.
        ({"idempotency_key": "no spaces", "event_id": "c"}, "e", "c"),
        ({"idempotency_key": "x" * 129}, "e", "e"),
        ({"idempotency_key": "x" * 128}, "e", "x" * 128),
        ({"idempotency_key": " A-z.0_9:@ "}, None, "A-z.0_9:@"),
        ({"idempotency_key": "a/b"}, None, None),
        ({"idempotency_key": "日本"}, None, None),
        ({"idempotency_key": "a\n"}, None, "a"),
        ({"idempotency_key": 17}, None, "17"),
        ({"idempotency_key": True}, None, None),
        ({"idempotency_key": ["a"]}, None, None),
        ({"idempotency_key": ""}, "", None),
    ],
)
def test_the_idempotency_key_is_the_first_valid_one(
    body: dict[str, Any], header: str | None, key: str | None
) -> None:
    assert read_event(body, header).idempotency_key == key


@pytest.mark.parametrize(
    ("given", "of_template", "month"),
    [
        ({"year": 2026, "month": 3}, (2025, 12), (2026, 3)),
        ({"year": "2026", "month": "03"}, (2025, 12), (2026, 3)),
        ({"year": 2026.0, "month": 3.0}, (2025, 12), (2026, 3)),
        ({}, (2025, 12), (2025, 12)),
        ({"year": 0, "month": 0}, (2025, 12), (2025, 12)),
        ({"year": None, "month": ""}, (2025, 12), (2025, 12)),
        # Year and month are a pair.
        ({"year": 2026}, (2025, 12), (2025, 12)),
        ({"month": 3}, (2025, 12), (2025, 12)),
        ({"year": 1999, "month": 3}, (2025, 12), None),
        ({"year": 2026, "month": 13}, (2025, 12), None),
        ({"year": 2026, "month": -1}, (2025, 12), None),
        ({"year": "soon", "month": 3}, (2025, 12), None),
        ({"year": 2026.5, "month": 3}, (2025, 12), None),
        ({"year": True, "month": 3}, (2025, 12), None),
        ({"year": 10_000, "month": 3}, (2025, 12), None),
        ({"year": 10**400, "month": 3}, (2025, 12), None),
        ({"year": 2026, "month": 10**400}, (2025, 12), None),
        ({"year": 1e300, "month": 3}, (2025, 12), None),
        ({"year": float("inf"), "month": 3}, (2025, 12), None),
        ({"year": "２０２６", "month": 3}, (2025, 12), None),
        ({}, (0, 0), None),
        ({}, (2025, 0), None),
    ],
)
def test_the_month_is_that_of_the_event_or_that_of_its_template(
    given: dict[str, Any], of_template: tuple[int, int], month: tuple[int, int] | None
) -> None:
    year, number = of_template
    event = with_template_defaults(read_event(given).event, template(year=year, month=number))
    assert has_month(event) is (month is not None)
    if month is not None:
        assert (event.year, event.month) == month


@pytest.mark.parametrize("value", [["zz"], {"id": "zz"}, True, False, 1.5, []])
def test_an_id_or_a_name_of_another_type_is_given_and_is_that_of_no_template(value: object) -> None:
    for given in ({"template_id": value, "templateId": "t"}, {"event_name": value, "eventName": "close"}):
        request = read_event(given)
        with pytest.raises(TemplateNotFound):
            resolve_template([template()], request.template_id, request.event_name)


def test_an_id_that_is_too_long_is_shortened_and_is_that_of_no_template() -> None:
    stored = msgspec.structs.replace(template(), id="x" * 64)
    assert len(read_event({"template_id": "x" * 200_000}).template_id or "") == 65
    with pytest.raises(TemplateNotFound):
        resolve_template([stored], read_event({"template_id": "x" * 65}).template_id, None)
    assert resolve_template([stored], read_event({"template_id": "x" * 64}).template_id, None) == stored


def test_blank_fields_are_those_of_the_template() -> None:
    of_template = template(mfcloud_url="https://mf.example.com", notes="of the template")
    blank = with_template_defaults(read_event({"mfcloud_url": " ", "notes": ""}).event, of_template)
    assert (blank.mfcloud_url, blank.notes) == ("https://mf.example.com", "of the template")
    given = with_template_defaults(read_event({"mfcloud_url": "https://x", "notes": "n"}).event, of_template)
    assert (given.mfcloud_url, given.notes) == ("https://x", "n")


def test_fields_have_two_names_and_a_length() -> None:
    event = read_event({"eventName": " Close ", "event_source": "e" * 100, "templateId": "t-1"})
    assert (event.event_name, event.event.source, event.template_id) == ("Close", "e" * 80, "t-1")
    assert read_event({}).event.source == "webhook"
    assert read_event({"template_id": " ", "event_name": 5}).template_id is None
    assert read_event({"event_name": 5}).event_name == "5"


def test_the_fingerprint_follows_from_the_payload_and_not_from_the_key() -> None:
    one = read_event({"payload": {"a": 1, "b": 2}, "idempotency_key": "k"})
    same = read_event({"payload": {"b": 2, "a": 1}, "event_id": "other"})
    other = read_event({"payload": {"a": 1, "b": 3}})
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_the_params_of_a_run() -> None:
    assert params_of(EventInput(event_name="e", year=2026, month=1, payload=[1])) == {
        "event_name": "e",
        "source": "webhook",
        "year": 2026,
        "month": 1,
        "mfcloud_url": "",
        "notes": "",
        "payload": [1],
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("year", None), ("month", None)]),
        ({"year": 1999, "month": 4}, [("year", "1999")]),
        ({"year": "2026", "month": 13}, [("month", "13")]),
        ({"year": "soon", "month": 1}, [("year", None)]),
    ],
)
def test_the_refusal_of_a_month_names_the_field_and_its_value(
    body: dict[str, Any], expected: list[tuple[str, str | None]]
) -> None:
    error = invalid_event_month(read_event(body).event)
    assert error.detail == "Workflow event requires valid year/month."
    assert [(each.field, each.value) for each in error.problems] == expected
