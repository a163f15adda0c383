"""The flows of live workers at one moment. Workers with the same flows and tags are one group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyoco_server.records.workers.flow_models import FlowDescription


@dataclass(frozen=True, slots=True, eq=False)
class FlowGroup:
    tags: frozenset[str]
    # The version of their code; None: they do not say.
    version: str | None
    flows: Mapping[str, FlowDescription]
    # Whether these are all of their flows: a worker with a resolver cannot list them.
    is_complete: bool
    # Their ids.
    workers: Sequence[str]


class LiveFlows:
    def __init__(self, groups: Iterable[FlowGroup] = ()) -> None:
        self.groups = list(groups)
        # What was made of it for responses, by name and tag.
        self.shown: dict[tuple[str, str | None], Any] = {}
        self._having: dict[str, list[FlowGroup]] = {}
        for group in self.groups:
            for name in group.flows:
                self._having.setdefault(name, []).append(group)

    @cached_property
    def names(self) -> list[str]:
        return sorted(self._having)

    def having(self, flow_name: str, tag: str | None = None) -> list[FlowGroup]:
        """The groups that have the flow; most workers first."""
        found = [each for each in self._having.get(flow_name, ()) if tag is None or tag in each.tags]
        return sorted(found, key=lambda group: -len(group.workers)) if len(found) > 1 else found

    def serving(self, tag: str) -> list[FlowGroup]:
        return [group for group in self.groups if tag in group.tags]
