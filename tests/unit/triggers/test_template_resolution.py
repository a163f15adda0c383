"""Which template an event starts, with the texts of the contract."""

import pytest

from pyoco_server.errors import PyocoError, TemplateConflict, TemplateNotFound
from pyoco_server.records.triggers.trigger_models import TemplateRecord, TemplateStep, TriggerKind
from pyoco_server.triggers.workflow_events.template_resolution import resolve_template

EXTERNAL = TriggerKind.EXTERNAL_EVENT


def template(template_id: str, action: str, kind: TriggerKind = EXTERNAL) -> TemplateRecord:
    step = TemplateStep(id="1", action=action, trigger_kind=kind)
    return TemplateRecord(id=template_id, name=template_id, steps=[step], created_at=1.0, updated_at=1.0)


CLOSE, OPEN = template("close", "Close_Month"), template("open", "open_month")
SECOND = template("second", "close_month")
MANUAL = template("manual", "close_month", TriggerKind.MANUAL_START)


@pytest.mark.parametrize(
    ("known", "template_id", "event_name", "expected"),
    [
        ([CLOSE, OPEN], "open", None, OPEN),
        # The id decides.
        ([CLOSE, OPEN], "open", "close_month", OPEN),
        ([CLOSE, OPEN, MANUAL], None, "close_month", CLOSE),
        ([CLOSE, OPEN], None, "CLOSE_MONTH", CLOSE),
        ([CLOSE, MANUAL], None, None, CLOSE),
    ],
)
def test_the_one_template_is_found(
    known: list[TemplateRecord], template_id: str | None, event_name: str | None, expected: TemplateRecord
) -> None:
    assert resolve_template(known, template_id, event_name) is expected


@pytest.mark.parametrize(
    ("known", "template_id", "event_name", "error", "text"),
    [
        ([CLOSE], "other", None, TemplateNotFound, "Workflow template not found."),
        # Malformed: never another template.
        ([CLOSE], "../close", "close_month", TemplateNotFound, "Workflow template not found."),
        ([MANUAL], "manual", None, TemplateConflict, "Template step 1 must use trigger_kind=external_event."),
        (
            [CLOSE, MANUAL],
            None,
            "other",
            TemplateNotFound,
            "No external_event workflow template matched event_name.",
        ),
        (
            [CLOSE, SECOND],
            None,
            "close_month",
            TemplateConflict,
            "Multiple templates matched event_name. Specify template_id.",
        ),
        ([MANUAL], None, None, TemplateNotFound, "No external_event workflow template was found."),
        (
            [CLOSE, OPEN],
            None,
            None,
            TemplateConflict,
            "Multiple external_event templates found. Specify template_id.",
        ),
    ],
)
def test_none_or_several_are_errors(
    known: list[TemplateRecord],
    template_id: str | None,
    event_name: str | None,
    error: type[PyocoError],
    text: str,
) -> None:
    with pytest.raises(error) as raised:
        resolve_template(known, template_id, event_name)
    assert raised.value.detail == text


@pytest.mark.parametrize(
    ("known", "template_id", "event_name", "field", "value"),
    [
        ([CLOSE], "other", None, "template_id", "other"),
        ([MANUAL], "manual", None, "template_id", "manual"),
        ([CLOSE], None, "other", "event_name", "other"),
        ([CLOSE, SECOND], None, "close_month", "event_name", "close_month"),
    ],
)
def test_a_refusal_names_what_the_event_gave(
    known: list[TemplateRecord], template_id: str | None, event_name: str | None, field: str, value: str
) -> None:
    with pytest.raises(PyocoError) as raised:
        resolve_template(known, template_id, event_name)
    [problem] = raised.value.problems
    assert (problem.field, problem.value) == (field, repr(value))
