"""Checks a new run against the flows of live workers: warnings, or with `strict` a refusal.

A verdict on a flow is kept until anything in the catalogue changes: a submit costs one lookup, and a quick
check of its params.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from pyoco_server.catalogue.flow_directory import FlowDirectory
from pyoco_server.catalogue.live_flows import FlowGroup, LiveFlows
from pyoco_server.catalogue.quick_check import QuickCheck, Schema
from pyoco_server.errors import AnswersBusy, FieldProblem, FlowNotFound, InvalidRequest, shortened
from pyoco_server.json_schemas.schema_check_messages import ValueProblem
from pyoco_server.json_schemas.schema_checker import SchemaChecker
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.workers.flow_models import FlowDescription, SubmitWarning
from pyoco_server.runs.flow_yaml import did_you_mean

# A name that no worker has costs a search for similar ones.
_MAX_VERDICTS: Final = 10_000
_MAX_WARNINGS: Final = 20
_NO_WARNINGS: Final[tuple[SubmitWarning, ...]] = ()


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is known about a flow, as workers of one tag have it."""

    # Why no live worker could execute it.
    warning: SubmitWarning | None
    # The same for a run that is refused for it.
    refusal: str = ""
    # Of each version that has a schema; none if one of them has not.
    schemas: tuple[Schema, ...] = ()
    checks: tuple[QuickCheck, ...] = ()


class SubmitChecks:
    def __init__(self, directory: FlowDirectory) -> None:
        self._directory = directory
        self._checker = SchemaChecker()
        self._verdicts: dict[tuple[str, str], _Verdict] = {}
        # What the verdicts are about.
        self._flows: LiveFlows | None = None

    async def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        await self._checker.close()

    async def warnings(self, job: Job) -> Sequence[SubmitWarning]:
        """What `require` would refuse, as far as it is known without reading anything."""
        if not self._directory.ready:
            return _NO_WARNINGS
        verdict = self._verdict(job.tag, job.flow_name)
        if verdict.warning is not None:
            if self._directory.is_outdated:
                # A worker has just come.
                await self._directory.catch_up()
                verdict = self._verdict(job.tag, job.flow_name)
            if verdict.warning is not None:
                return (verdict.warning,)
        problems = _quick_problems(verdict, job.params)
        return [_warning(each) for each in problems[:_MAX_WARNINGS]] if problems else _NO_WARNINGS

    async def require(self, job: Job) -> None:
        """FlowNotFound: no live worker of the tag has the flow; InvalidRequest: the params do not match."""
        await self._directory.refresh()
        verdict = self._verdict(job.tag, job.flow_name)
        if verdict.warning is not None:
            raise FlowNotFound(verdict.refusal)
        problems = await self._problems(verdict, job)
        if problems:
            raise InvalidRequest(problems=problems)

    async def _problems(self, verdict: _Verdict, job: Job) -> list[FieldProblem]:
        """None if a version of the flow takes the params."""
        found: list[FieldProblem] = []
        for schema in verdict.schemas:
            try:
                result = await self._checker.result(job.params, schema, owner=job.tenant_id or "")
            except AnswersBusy:
                return _quick_problems(verdict, job.params)
            if result.schema_error is not None or not result.problems:
                # A schema that cannot be used is no reason to refuse a run.
                return []
            found = found or [_described(each, schema, job.params) for each in result.problems]
        return found

    def _verdict(self, tag: str, flow_name: str) -> _Verdict:
        flows = self._directory.current
        if flows is not self._flows or len(self._verdicts) >= _MAX_VERDICTS:
            self._flows = flows
            self._verdicts.clear()
        verdict = self._verdicts.get((tag, flow_name))
        if verdict is None:
            verdict = self._verdicts[tag, flow_name] = _verdict(flows, tag, flow_name)
        return verdict


def _verdict(flows: LiveFlows, tag: str, flow_name: str) -> _Verdict:
    serving = flows.serving(tag)
    if not serving:
        why = f"no live worker has the tag {tag!r}"
        warning = SubmitWarning(code="no_worker", message=f"{why}: the run waits until one is started")
        return _Verdict(warning, f"{why}: start one, or submit without `strict` to let the run wait for it")
    having = flows.having(flow_name, tag)
    if not all(group.is_complete for group in serving):
        # Those of a resolver may have it in another version.
        return _Verdict(None)
    if not having:
        why = unknown_flow(flow_name, tag, serving)
        return _Verdict(SubmitWarning(code="flow_unknown", message=why), why)
    schemas = _schemas(group.flows[flow_name] for group in having)
    return _Verdict(None, schemas=schemas, checks=tuple(map(QuickCheck, schemas)))


def unknown_flow(flow_name: str, tag: str, serving: Iterable[FlowGroup]) -> str:
    known = sorted({name for group in serving for name in group.flows})
    hint = did_you_mean(flow_name, known)
    return f"no live worker of the tag {tag!r} has the flow {shortened(flow_name)}{hint}"


def _schemas(descriptions: Iterable[FlowDescription]) -> tuple[Schema, ...]:
    """Each once; none if a version has none, because it takes anything."""
    encoded = {bytes(each.parameters) for each in descriptions}
    decoded = [msgspec.json.decode(each) for each in sorted(encoded)]
    return tuple(decoded) if all(isinstance(each, dict) for each in decoded) else ()


def _quick_problems(verdict: _Verdict, params: Mapping[str, Any]) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    for schema, check in zip(verdict.schemas, verdict.checks, strict=True):
        problems = check.problems(params)
        if not problems:
            return []
        found = found or [_described(each, schema, params) for each in problems]
    return found


def _described(problem: ValueProblem, schema: Schema, params: Mapping[str, Any]) -> FieldProblem:
    """With the path as `params.x[0]`, and the param that was meant by an unknown one."""
    described = problem.bracketed("params")
    known = schema.get("properties", {})
    match problem.path:
        case [str(name)] if name in params and name not in known:
            names = f"; it has {', '.join(known)}" if known else "; it has none"
            message = f"the flow has no such parameter{did_you_mean(name, known) or names}"
            return replace(described, message=message)
    return described


def _warning(problem: FieldProblem) -> SubmitWarning:
    return SubmitWarning(code="params_invalid", message=str(problem), field=problem.field)
