"""References and expressions that a worker evaluates: what they reach, and how large they become."""

import inspect
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyoco.core.context import Context, LoopFrame
from pyoco.core.exceptions import InvalidReferenceError
from pyoco.dsl.expressions import Expression, ExpressionEvaluationError

from pyoco_server.worker.engine.graph.expressions import MAX_LENGTH, evaluate
from pyoco_server.worker.engine.pyoco_adapter import FlowContext

SECRET = "not for a flow"


@dataclass
class Order:
    total: int
    lines: list[int]

    @property
    def first(self) -> int:
        return self.lines[0]

    def pay(self) -> None: ...


class Item(msgspec.Struct):
    name: str


Pair = namedtuple("Pair", "left right")


class Meta(type):
    secret = SECRET


class OfMeta(metaclass=Meta):
    secret = SECRET


def generator() -> Any:
    yield SECRET


class Holder:
    """An object whose public fields lead to code."""

    def __init__(self) -> None:
        self.module = sys
        self.frame = inspect.currentframe()
        self.function = generator
        self.generator = generator()
        self.raised = ValueError("x")
        self.kind = OfMeta
        self.subprocess = SimpleNamespace(run=subprocess.run)


OUTPUTS: dict[str, Any] = {
    "order": Order(7, [1, 2]),
    "item": Item("x"),
    "pair": Pair(1, 2),
    "space": SimpleNamespace(a={"b": [3]}),
    "mapping": {"rows": [1], "deep": {"total": 7}, "_id": 9, "order": Order(8, [])},
    "text": "abc",
    "list": [1],
    "module": os,
    "type": Order,
    "function": generator,
    "method": Order(1, []).pay,
    "generator": generator(),
    "frame": inspect.currentframe(),
    "error": ValueError("x"),
    "holder": Holder(),
    "of_meta": OfMeta,
}


def context(**fields: Any) -> Context:
    made = FlowContext(
        params={"n": 5, "s": "a", "l": [0], "big": 10**4000, "f": 1.5}, results=OUTPUTS, **fields
    )
    made.push_loop(LoopFrame(name="repeat", type="repeat", index=2, item=Order(3, [])))
    return made


def resolved(reference: str) -> Any:
    return context().resolve(reference)


def evaluated(source: str) -> Any:
    made = context()
    return evaluate(Expression(source), made.expression_data(), {"HOME": "/root", "_X": "1"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("order.total", 7),
        ("order.first", 1),
        ("item.name", "x"),
        ("pair.right", 2),
        ("space.a.b", [3]),
        ("mapping.rows", [1]),
        ("mapping.deep.total", 7),
        ("mapping._id", 9),
        ("mapping.order.total", 8),
    ],
)
def test_a_path_leads_to_data(path: str, expected: object) -> None:
    assert resolved(f"$node.{path.replace('.', '.output.', 1)}") == expected
    assert evaluated(f"$ctx.results.{path}") == expected


@pytest.mark.parametrize(
    "path",
    [
        "order.__init__.__globals__",
        "order.__class__",
        "order.__dict__",
        "order._x",
        "order.pay",
        "order.pay.__globals__",
        "item.__struct_fields__",
        "pair._asdict",
        "pair.count",
        "text.format",
        "text.__class__.__mro__",
        "list.append",
        "list.__class__.__base__.__subclasses__",
        "mapping.order.__init__",
        "module.environ",
        "module.path",
        "type.first",
        "type.mro",
        "type.__subclasses__",
        "function.__globals__",
        "function.func_globals",
        "method.__func__",
        "generator.gi_frame",
        "generator.gi_frame.f_globals",
        "generator.gi_code",
        "frame.f_globals",
        "frame.f_back",
        "error.args",
        "error.with_traceback",
        "error.__traceback__.tb_frame",
        "of_meta.secret",
        "holder.module",
        "holder.module.modules",
        "holder.function",
        "holder.kind",
        "holder.frame.f_globals",
        "holder.generator.gi_frame",
        "holder.subprocess.run",
    ],
)
def test_a_path_does_not_lead_to_code(path: str) -> None:
    with pytest.raises(InvalidReferenceError, match=r"Invalid reference '\$node\..* (data|has no)"):
        resolved(f"$node.{path.replace('.', '.output.', 1)}")
    with pytest.raises(ExpressionEvaluationError, match=r"\$ctx\.results\..* not found"):
        evaluated(f"$ctx.results.{path}")


@pytest.mark.parametrize(
    "source",
    ["$ctx.loop.__init__.__globals__", "$ctx.loop.__class__", "$ctx.loops.__class__", "$ctx.loops.append",
     "$env.HOME.__class__", "$env.HOME.format", "$ctx.loop.item.__init__"],
)  # fmt: skip
def test_the_loop_and_the_environment_do_not_lead_to_code(source: str) -> None:
    with pytest.raises(ExpressionEvaluationError, match="not found"):
        evaluated(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("$ctx.loop.index", 2),
        ("$ctx.loop.item.total + 1", 4),
        ("$ctx.params.n * 3 % 2 == 1 and $ctx.params.s == 'a'", True),
        ("$ctx.params.n / 2", 2.5),
        ("-$ctx.params.n + +1 - 2", -6),
        ("($ctx.params.n > 3) * 2", 2),
        ("2 ** 10", 1024),
        ("1 < $ctx.params.n < 9", True),
        ("1 < $ctx.params.n < 3", False),
        ("9 < $ctx.params.n < $ctx.params.missing", False),
        ("not $ctx.params.n", False),
        ("'a' in $ctx.params.s", True),
        ("1 not in $ctx.params.l", True),
        ("$ctx.params.l or 1", [0]),
        ("0 and $ctx.params.missing", 0),
        ("'' or 0 or 'x'", "x"),
        ("1 and 2", 2),
        ("$ctx.params.l + $ctx.params.l", [0, 0]),
        ("$ctx.params.s + 'b'", "ab"),
        ("$ctx.params.f * 2", 3.0),
        ("$env.HOME == '/root'", True),
        ("$env._X", "1"),
        ("$ctx.params.n != 5", False),
        ("$ctx.params.n >= 5 and $ctx.params.n <= 5", True),
        ("$ctx.params.big * 2", 2 * 10**4000),
    ],
)
def test_expressions_have_the_values_of_pyoco(source: str, expected: object) -> None:
    assert evaluated(source) == expected
    made = context()
    if "_X" not in source:
        assert Expression(source).evaluate(made.expression_data(), {"HOME": "/root"}) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("$ctx.params.s * 2000000000 == 1", r"\* needs two numbers, not a str"),
        ("2000000000 * $ctx.params.s", r"\* needs two numbers, not a str"),
        ("$ctx.params.l * 200000000", r"\* needs two numbers, not a list"),
        ("$ctx.results.pair * 2", r"\* needs two numbers, not a Pair"),
        ("'%999999999d' % 1", "% needs two numbers, not a str"),
        ("$ctx.params.s % $ctx.params.n", "% needs two numbers, not a str"),
        ("b'%999999999d' % 1", "% needs two numbers, not a bytes"),
        (" * ".join(["$ctx.params.big"] * 20), "more than 16384 bits"),
        ("9 ** 9 ** 9", "more than 16384 bits"),
        ("$ctx.params.s ** 2", "needs two numbers"),
        ("$ctx.params.missing", r"\$ctx\.params\.missing not found"),
        ("1 / 0", "division by zero"),
        ("-$ctx.params.s", "bad operand"),
    ],
)
def test_results_are_bounded(source: str, words: str) -> None:
    with pytest.raises(ExpressionEvaluationError, match=words):
        evaluated(source)


@pytest.mark.parametrize(
    "make", [lambda n: "x" * n, lambda n: [0] * n, lambda n: b"x" * n, lambda n: (0,) * n]
)
def test_what_is_joined_is_bounded(make: Callable[[int], Any]) -> None:
    data = {"params": {"a": make(MAX_LENGTH // 2), "b": make(1)}}
    assert len(evaluate(Expression("$ctx.params.a + $ctx.params.a"), data, {})) == MAX_LENGTH
    with pytest.raises(ExpressionEvaluationError, match="more than 1000000 items or characters"):
        evaluate(Expression("$ctx.params.a + $ctx.params.a + $ctx.params.b"), data, {})


def test_a_power_of_a_fraction_is_refused() -> None:
    data = {"params": {"a": Fraction(3, 2)}}
    assert evaluate(Expression("$ctx.params.a * 2"), data, {}) == 3
    with pytest.raises(ExpressionEvaluationError, match="two numbers"):
        evaluate(Expression("$ctx.params.a ** 999999999"), data, {})
