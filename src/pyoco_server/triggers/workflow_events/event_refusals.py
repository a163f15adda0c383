"""Why an event or a template is refused: the texts of the contract, and the fields that they are about."""

from collections.abc import Iterator
from typing import Final

from pyoco_server.errors import (
    ActionNotExecutable,
    EventInvalid,
    FieldProblem,
    TemplateConflict,
    TemplateNotFound,
    shortened,
)
from pyoco_server.records.triggers.trigger_models import TemplateRecord
from pyoco_server.records.triggers.workflow_event_models import EventInput

FIRST_YEAR: Final = 2000
# `ym` of a summary has four digits for it. Years of templates end with 3000.
LAST_YEAR: Final = 9999


def has_month(event: EventInput) -> bool:
    return not any(_month_problems(event))


def invalid_event_month(event: EventInput) -> EventInvalid:
    return EventInvalid("Workflow event requires valid year/month.", problems=[*_month_problems(event)])


def template_not_found(template_id: str) -> TemplateNotFound:
    problem = FieldProblem("template_id", "expected the id of a workflow template", shortened(template_id))
    return TemplateNotFound("Workflow template not found.", problems=[problem])


def none_external() -> TemplateNotFound:
    return TemplateNotFound("No external_event workflow template was found.")


def none_matched(event_name: str) -> TemplateNotFound:
    expected = "expected the action of an external_event template's first step"
    problem = FieldProblem("event_name", expected, shortened(event_name))
    return TemplateNotFound("No external_event workflow template matched event_name.", problems=[problem])


def not_external(template: TemplateRecord) -> TemplateConflict:
    kind = template.first.trigger_kind
    problem = FieldProblem(
        "template_id", f"the first step of this template is {kind}", shortened(template.id)
    )
    return TemplateConflict("Template step 1 must use trigger_kind=external_event.", problems=[problem])


def several_external() -> TemplateConflict:
    return TemplateConflict("Multiple external_event templates found. Specify template_id.")


def several_matched(event_name: str) -> TemplateConflict:
    problem = FieldProblem("event_name", "several templates have this action", shortened(event_name))
    return TemplateConflict("Multiple templates matched event_name. Specify template_id.", problems=[problem])


def not_executable(template: TemplateRecord) -> ActionNotExecutable:
    action = template.first.action
    expected = "expected the key of an action, or the name of a flow that a live worker has"
    return ActionNotExecutable(
        # "MVP" is the contract's word.
        f"external_event action is not executable in MVP: {action}",
        problems=[FieldProblem("action", expected, shortened(action))],
    )


def _month_problems(event: EventInput) -> Iterator[FieldProblem]:
    if not FIRST_YEAR <= event.year <= LAST_YEAR:
        yield _of_month("year", f"expected {FIRST_YEAR} to {LAST_YEAR}", event.year)
    if not 1 <= event.month <= 12:
        yield _of_month("month", "expected 1 to 12", event.month)


def _of_month(field: str, expected: str, value: int) -> FieldProblem:
    # 0 was left out, and below it the value was no number.
    given = str(value) if value > 0 else None
    return FieldProblem(field, f"{expected}, in the event or in its template", given)
