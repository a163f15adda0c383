"""The tasks of a flow.yaml: their declarations, and what `use:` resolves to."""

import re
from collections.abc import Callable, Iterable, KeysView, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from pyoco_server.runs.flow_yaml.expression_check import path_problem
from pyoco_server.runs.flow_yaml.source_map import Location
from pyoco_server.runs.flow_yaml.yaml_problems import did_you_mean
from pyoco_server.runs.flow_yaml.yaml_tree import Node, Scalar
from pyoco_server.runs.flow_yaml.yaml_values import Reader, child

MAX_USE_STEPS: Final = 16
MAX_RETRIES: Final = 1000
MAX_TIMEOUT_SEC: Final = 366 * 86_400
FAIL_POLICIES: Final = ("stop", "isolate")

# What pyoco resolves in an input that begins with `$`; anything else fails when the task runs.
_REFERENCE: Final = re.compile(r"\$(?:node\.[^.]+\.output(?:\..*)?|ctx\.params\..+|env\..+)", re.DOTALL)

# The options of pyoco's Task that a task may have, each with a check and what is expected.
OPTIONS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "retries": (
        lambda value: type(value) is int and 0 <= value <= MAX_RETRIES,
        f"a whole number from 0 to {MAX_RETRIES}",
    ),
    "timeout_sec": (
        lambda value: type(value) in (int, float) and 0 < value <= MAX_TIMEOUT_SEC,
        "a number of seconds above 0, at most a year",
    ),
    "fail_policy": (lambda value: value in FAIL_POLICIES, "'stop' or 'isolate'"),
    # Whether the result of the run is what this task returns.
    "result": (lambda value: type(value) is bool, "true or false"),
}
_NOT_HERE: Final = {
    "trigger_policy": "it decides about branches that join, which only a Python flow can have",
}

# Of tasks that the server itself provides.
BUILT_IN_PREFIX: Final = "pyoco/"

# The problems of a built-in task's inputs: name and message.
InputCheck = Callable[[dict[str, Any]], Iterable[tuple[str, str]]]


def is_reference(value: object) -> bool:
    """Whether an input is resolved only when the task runs."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def _reference_problem(text: str) -> str | None:
    if _REFERENCE.fullmatch(text) is None:
        return "after '$' must come node.<node>.output, ctx.params.<key> or env.<name>"
    root, _, *path = text.split(".", 2)
    # The name of a variable or of a node is not part of a path.
    return None if root == "$env" else path_problem(".".join(path) if root == "$node" else text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeclaration:
    """At most one of `callable` and `use` is given; once resolved, exactly one."""

    callable: str | None = None  # module:function
    use: str | None = None  # a task of the worker; once resolved never a task of the same file
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # of OPTIONS, those that are given


def is_callable_path(path: str) -> bool:
    """Whether the text has the form `package.module:function`."""
    module, colon, function = path.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


class DeclaredTasks:
    """The section `tasks`, in file order, in which pyoco resolves `use:`."""

    def __init__(self, node: Node | None, read: Reader, built_in: Mapping[str, InputCheck]) -> None:
        self._read = read
        self._built_in = built_in
        self._declared: dict[str, TaskDeclaration] = {}
        self._use_locations: dict[str, Location] = {}
        self._input_locations: dict[str, dict[str, Location]] = {}
        self._option_locations: dict[str, dict[str, Location]] = {}
        for name, entry in read.entries(node, "tasks").items():
            self._declared[name] = self._declaration(name, entry.value)
        self._order = {name: index for index, name in enumerate(self._declared)}

    @property
    def names(self) -> KeysView[str]:
        return self._declared.keys()

    def resolved(self, name: str) -> TaskDeclaration:
        """The task with everything it inherits by `use:` from other tasks of the file.

        A task without a callable, declared or not, is the task of this name that the worker has.
        """
        if name not in self._declared:
            return TaskDeclaration(use=name)
        names = self._use_steps(name)
        steps = [self._declared[step] for step in names]
        inputs: dict[str, Any] = {}
        outputs: list[str] = []
        options: dict[str, Any] = {}
        for step in reversed(steps):
            inputs.update(step.inputs)
            outputs.extend(step.outputs)
            options.update(step.options)
        if "result" not in steps[0].options:
            # It is about this task in this flow.
            options.pop("result", None)
        last = steps[-1]
        use = names[-1] if last.callable is None and last.use is None else last.use
        resolved = replace(last, use=use, inputs=inputs, outputs=tuple(outputs), options=options)
        if self._built_in and resolved.use is not None and resolved.use.startswith(BUILT_IN_PREFIX):
            self._check_built_in(names, resolved)
        return resolved

    def check_not_isolated(self, names: Iterable[str]) -> None:
        """pyoco has no `isolate` between loops and branches."""
        for name in names:
            for step in self._use_steps(name) if name in self._declared else ():
                if self._declared[step].options.get("fail_policy") == "isolate":
                    message = (
                        "has no effect in a graph with loops or branches, which any failure stops; "
                        "catch the exception in the task"
                    )
                    location = self._option_locations[step]["fail_policy"]
                    self._read.problems.add(f"tasks.{step}.fail_policy", message, location, "isolate")

    def check_one_result(self, names: Iterable[str]) -> None:
        """The result of a run is what one task returned."""
        found = [
            name for name in names if name in self._declared and self._declared[name].options.get("result")
        ]
        for name in found[1:]:
            message = f"the task {found[0]!r} has the result already; keep one of them"
            self._read.problems.add(
                f"tasks.{name}.result", message, self._option_locations[name]["result"], "true"
            )

    def _check_built_in(self, names: list[str], resolved: TaskDeclaration) -> None:
        check = self._built_in.get(resolved.use or "")
        if check is None:
            known = ", ".join(self._built_in)
            hint = did_you_mean(resolved.use or "", self._built_in) or f"; there are: {known}"
            self._report_use(names[-1], f"no task of the server has this name{hint}")
            return
        for wrong, message in check(resolved.inputs):
            # Reported at the nearest task that gives the input.
            giver = next((step for step in names if wrong in self._input_locations[step]), None)
            location = self._use_locations[names[0]] if giver is None else self._input_locations[giver][wrong]
            self._read.problems.add(f"tasks.{giver or names[0]}.inputs.{wrong}", message, location)
        for step in names:
            if "timeout_sec" in self._option_locations[step]:
                message = "a question has no execution time; its deadline is the input 'timeout_ms'"
                location = self._option_locations[step]["timeout_sec"]
                self._read.problems.add(f"tasks.{step}.timeout_sec", message, location)

    def _use_steps(self, name: str) -> list[str]:
        """The tasks from this one along `use:` to a callable or a plug-in's task.

        `use:` with the task's own name is a plug-in's task that keeps its name.
        """
        steps = [name]
        while (target := self._declared[steps[-1]].use) in self._declared and target != steps[-1]:
            assert target is not None
            steps.append(target)
            if target in steps[:-1]:
                circle = " -> ".join(steps[steps.index(target) :])
                self._report_use(steps[-2], f"'use' goes in a circle: {circle}")
                return steps
            if len(steps) > MAX_USE_STEPS:
                self._report_use(name, f"'use' leads over more than {MAX_USE_STEPS} tasks; name a callable")
                return steps
        for task, target in pairwise(steps):
            if self._order[target] > self._order[task] and self._declared[target].use is not None:
                self._report_use(task, f"{target!r} has a 'use' too, so it must be declared before this task")
        return steps

    def _report_use(self, task: str, message: str) -> None:
        target = self._declared[task].use
        self._read.problems.add(f"tasks.{task}.use", message, self._use_locations[task], target)

    def _declaration(self, name: str, node: Node) -> TaskDeclaration:
        read, where = self._read, child("tasks", name)
        keys = read.section(node, where, ("callable", "use", "inputs", "outputs", *OPTIONS), _NOT_HERE)
        path = read.text(keys["callable"], f"{where}.callable") if "callable" in keys else None
        target = read.text(keys["use"], f"{where}.use") if "use" in keys else None
        if "callable" in keys and "use" in keys:
            message = "'callable' and 'use' cannot both be given; keep one of them"
            read.problems.add(where, message, keys["use"].location)
        if path is not None and not is_callable_path(path):
            message = "must have the form 'package.module:function'"
            read.problems.add(f"{where}.callable", message, keys["callable"].location, path)
        if target is not None:
            self._use_locations[name] = keys["use"].location
        return TaskDeclaration(
            callable=path,
            use=target,
            inputs=self._inputs(name, keys.get("inputs"), f"{where}.inputs"),
            outputs=tuple(read.texts(keys.get("outputs"), f"{where}.outputs")),
            options=self._options(name, keys, where),
        )

    def _options(self, task: str, keys: dict[str, Node], where: str) -> dict[str, Any]:
        self._option_locations[task] = {option: keys[option].location for option in OPTIONS if option in keys}
        values: dict[str, Any] = {}
        for option, (is_valid, expected) in OPTIONS.items():
            if option not in keys:
                continue
            node = keys[option]
            value = self._read.json_value(node, f"{where}.{option}")
            if is_valid(value):
                values[option] = value
            else:
                written = node.text if isinstance(node, Scalar) else None
                self._read.problems.add(f"{where}.{option}", f"must be {expected}", node.location, written)
        return values

    def _inputs(self, task: str, node: Node | None, where: str) -> dict[str, Any]:
        locations = self._input_locations[task] = {}
        for name, entry in self._read.entries(node, where).items():
            value = entry.value
            locations[name] = value.location
            if not isinstance(value, Scalar) or value.kind != "str" or not value.text.startswith("$"):
                continue
            message = _reference_problem(value.text)
            if message is not None:
                self._read.problems.add(child(where, name), message, value.location, value.text)
        return self._read.json_mapping(node, where)
