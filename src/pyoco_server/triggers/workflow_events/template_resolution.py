"""Which template an event starts."""

from collections.abc import Collection

from pyoco_server.records.triggers.trigger_models import TemplateRecord
from pyoco_server.triggers.workflow_events import event_refusals as refusals


def resolve_template(
    templates: Collection[TemplateRecord], template_id: str | None, event_name: str | None
) -> TemplateRecord:
    """TemplateNotFound or TemplateConflict if there is not exactly one."""
    if template_id is not None:
        return _by_id(templates, template_id)
    external = [each for each in templates if each.is_external]
    if event_name is not None:
        action = event_name.casefold()
        matching = [each for each in external if each.first.action.casefold() == action]
        if not matching:
            raise refusals.none_matched(event_name)
        if len(matching) > 1:
            raise refusals.several_matched(event_name)
        return matching[0]
    if not external:
        raise refusals.none_external()
    if len(external) > 1:
        raise refusals.several_external()
    return external[0]


def _by_id(templates: Collection[TemplateRecord], template_id: str) -> TemplateRecord:
    found = next((each for each in templates if each.id == template_id), None)
    if found is None:
        raise refusals.template_not_found(template_id)
    if not found.is_external:
        raise refusals.not_external(found)
    return found
