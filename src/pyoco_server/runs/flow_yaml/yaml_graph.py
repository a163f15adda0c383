"""Checks the graph of a flow.yaml and its pipes.

pyoco reports one problem of a graph, often without a position. So each name and each argument is first
checked on its own, where its location is known; then pyoco builds the whole flow with placeholder tasks.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyoco.core.models import Flow, Task
from pyoco.dsl.expressions import Expression
from pyoco.dsl.graph import (
    MAX_PIPE_EXPANSION_DEPTH,
    build_flow_from_graph,
    parse_graph,
    resolve_pipe_refs,
    validate_graph_terms,
)

from pyoco_server.runs.flow_yaml.expression_check import expression_problem
from pyoco_server.runs.flow_yaml.graph_scan import (
    ARGUMENTS,
    Argument,
    GraphScan,
    GraphText,
    Reference,
    scan_graph,
)
from pyoco_server.runs.flow_yaml.yaml_problems import ProblemList, did_you_mean

MAX_GRAPH_NESTING: Final = 32
MAX_EXPANDED_CHARS: Final = 1_000_000  # pyoco parses a pipe again each time it is used
MAX_EXPRESSION_CHARS: Final = 500
MAX_ARGUMENTS: Final = 1_000  # each is compiled on its own

_EXPRESSION_OF: Final = {"switch": "expression", "repeat": "count", "foreach": "source", "until": "condition"}


@dataclass(frozen=True, slots=True)
class Reached:
    """The tasks and pipes that the graph uses, in order."""

    tasks: tuple[str, ...] = ()
    pipes: tuple[str, ...] = ()
    has_control_flow: bool = False  # a loop or a branch


def check_graph(
    graph: GraphText, pipes: Mapping[str, GraphText], tasks: Collection[str], problems: ProblemList
) -> Reached:
    """Report every problem of the graph and of the pipes it uses; unused pipes are not checked."""
    walk = _PipeWalk(pipes, problems)
    walk.enter(graph, ())
    references = [reference for scan in walk.scans for reference in scan.tasks]
    for reference in references:
        if reference.name not in tasks and not problems.full:
            _check_undeclared(reference, tasks, pipes, problems)
    _check_arguments(graph, [argument for scan in walk.scans for argument in scan.arguments], problems)
    names = dict.fromkeys(found.name for found in references)
    has_control_flow = any(scan.depth for scan in walk.scans)
    reached = Reached(tuple(names), tuple(walk.reached), has_control_flow)
    if not problems:
        _check_whole(graph, {name: pipes[name].text for name in reached.pipes}, references, problems)
    return reached


def _check_undeclared(
    reference: Reference, tasks: Collection[str], pipes: Collection[str], problems: ProblemList
) -> None:
    """Report what is probably a typo. Any other name may be a task of the worker, which is not known here."""
    name = reference.name
    if name in pipes:
        message = f"{name!r} is a pipe, not a task; write pipe({name})"
    elif hint := did_you_mean(name, tasks):
        message = f"there is no task {name!r}{hint} For a task of the worker, add '{name}: {{}}' to 'tasks'"
    else:
        return
    problems.add(reference.source.field, message, reference.location, name)


@dataclass(slots=True)
class _Cost:
    """The size of a pipe with every pipe in it expanded."""

    chars: int
    depth: int


@dataclass(slots=True)
class _PipeWalk:
    """Follows pipe(...) from the graph, each pipe once."""

    pipes: Mapping[str, GraphText]
    problems: ProblemList
    scans: list[GraphScan] = field(default_factory=list)
    reached: dict[str, _Cost] = field(default_factory=dict)

    def enter(self, text: GraphText, stack: tuple[str, ...]) -> _Cost:
        cost = _Cost(len(text.text), 0)
        scan = scan_graph(text, self.problems)
        if scan is None:
            return cost
        self.scans.append(scan)
        cost.depth = scan.depth
        for reference in scan.pipes:
            inner = self._follow(reference, stack)
            cost.chars += inner.chars
            cost.depth = max(cost.depth, reference.depth + inner.depth)
        self._check_cost(text, cost)
        return cost

    def _follow(self, reference: Reference, stack: tuple[str, ...]) -> _Cost:
        name = reference.name
        if name in stack:
            circle = " -> ".join([*stack[stack.index(name) :], name])
            self._report(reference, f"the pipes go in a circle: {circle}")
        elif name not in self.pipes:
            self._report(reference, f"there is no pipe {name!r}{did_you_mean(name, self.pipes)}")
        elif len(stack) >= MAX_PIPE_EXPANSION_DEPTH:
            self._report(reference, f"pipes are nested more than {MAX_PIPE_EXPANSION_DEPTH} levels deep")
        else:
            if name not in self.reached:
                self.reached[name] = _Cost(0, 0)  # keeps the order while it is measured
                self.reached[name] = self.enter(self.pipes[name], (*stack, name))
            return self.reached[name]
        return _Cost(0, 0)

    def _check_cost(self, text: GraphText, cost: _Cost) -> None:
        """Reported once, where the limit is exceeded: from there on the cost counts as zero."""
        if cost.depth > MAX_GRAPH_NESTING:
            message = f"loops and switches are nested more than {MAX_GRAPH_NESTING} levels deep"
            self.problems.add(text.field, message, text.location(0))
            cost.depth = 0
        if cost.chars > MAX_EXPANDED_CHARS:
            message = f"with its pipes expanded this is longer than {MAX_EXPANDED_CHARS} characters"
            self.problems.add(text.field, message, text.location(0))
            cost.chars = 0

    def _report(self, reference: Reference, message: str) -> None:
        self.problems.add(reference.source.field, message, reference.location, reference.name)


def _check_arguments(graph: GraphText, arguments: list[Argument], problems: ProblemList) -> None:
    different: dict[tuple[str, str, str], Argument] = {}
    for argument in arguments:
        different.setdefault((argument.word, argument.key, argument.written), argument)
    if len(different) > MAX_ARGUMENTS:
        message = f"loops and switches have more than {MAX_ARGUMENTS} different arguments"
        problems.add(graph.field, message, graph.location(0))
        return
    for argument in different.values():
        _check_argument(argument, problems)


def _check_argument(argument: Argument, problems: ProblemList) -> None:
    """Compile the smallest graph with this argument, so that pyoco's error is about it alone."""
    if len(argument.written) > MAX_EXPRESSION_CHARS:
        message = f"{argument.key}= is longer than {MAX_EXPRESSION_CHARS} characters"
        problems.add(argument.source.field, message, argument.location)
        return
    required = ARGUMENTS[argument.word][0]
    others = "" if argument.key == required else f"{required}=x, "
    body = "default: task" if argument.word == "switch" else "task"
    # The line break ends a comment that may follow the argument.
    probe = f"{argument.word}({others}{argument.key}={argument.written}\n){{{body}}}"
    try:
        flow = placeholder_flow(probe, {}, ["task"])
        refusal = expression_problem(_expression_source(argument.word, flow))
    except (_RefusedByPyoco, RecursionError) as exc:
        problems.add(argument.source.field, f"{argument.key}=: {exc}", argument.location)
        return
    if refusal is not None and argument.key == required:
        message = f"{argument.key}=: {refusal}"
        problems.add(argument.source.field, message, argument.location, argument.written.strip())


def _expression_source(word: str, flow: Flow) -> str:
    compiled: Any = getattr(flow.build_program().steps[0], _EXPRESSION_OF[word])
    return str(compiled.source) if isinstance(compiled, Expression) else ""


class _RefusedByPyoco(Exception):
    """pyoco would not build the graph; the text is its reason."""


def placeholder_flow(graph: str, pipes: dict[str, str], tasks: Collection[str]) -> Flow:
    """The flow with tasks that do nothing; _RefusedByPyoco for an invalid graph."""
    placeholders = {name: Task(func=_placeholder, name=name) for name in tasks}
    try:
        errors = validate_graph_terms(resolve_pipe_refs(parse_graph(graph), pipes)).errors
        if errors:
            raise _RefusedByPyoco(re.sub(r"^flow\S*: ", "", errors[0]).rstrip("."))
        return build_flow_from_graph(graph=graph, tasks=placeholders, pipes=pipes)
    except (ValueError, RecursionError, MemoryError) as exc:
        # The last two come from Python's parser, for an expression that is nested too deeply.
        raise _RefusedByPyoco(str(exc).rstrip(".") or "the expression is nested too deeply") from exc


def _placeholder() -> None:
    """Stands for a task's function; a flow that holds it is never run."""


def _check_whole(
    graph: GraphText, pipes: dict[str, str], references: list[Reference], problems: ProblemList
) -> None:
    try:
        flow = placeholder_flow(graph.text, pipes, [reference.name for reference in references])
    except _RefusedByPyoco as exc:
        duplicate = re.match(r"Duplicate node name: (\w+)", str(exc))
        if duplicate is None:
            problems.add(graph.field, str(exc), graph.location(0))
        else:
            message = f"two nodes are called {duplicate[1]!r}; give one another name, as in `other: task`"
            _report_last(duplicate[1], message, references, problems)
        return
    if not flow.has_control_flow():
        terms = resolve_pipe_refs(parse_graph(graph.text), pipes).terms
        uses = Counter(term.node_name or term.name for term in terms)
        for name in (name for name, count in uses.items() if count > 1):
            message = (
                f"{name!r} is there twice, and in a graph without loops it would wait for itself; "
                f"give the second one a name of its own, as in `{name}_2: {name}`"
            )
            _report_last(name, message, references, problems)


def _report_last(name: str, message: str, references: list[Reference], problems: ProblemList) -> None:
    named = [found for found in references if (found.node or found.name) == name]
    problems.add(named[-1].source.field, message, named[-1].location, name)
