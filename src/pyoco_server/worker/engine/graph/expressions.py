"""References and expressions of a flow, evaluated within bounds.

pyoco follows any attribute of a result, from which a path leads to the globals of every module, and
calculates with operands of any size. Here a path leads through mappings and the data of objects, `*` and `%`
take numbers, and every result has a maximum size. The syntax is pyoco's, which has checked it.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Number
from types import ModuleType
from typing import Any, Final

from pyoco.core.exceptions import InvalidReferenceError
from pyoco.dsl.expressions import Expression, ExpressionEvaluationError, translate

# Of an integer: about as many digits as a number in JSON may have.
MAX_BITS: Final = 16 * 1024
# Of a text or a list that `+` makes.
MAX_LENGTH: Final = 1_000_000

# The data of `$ctx` and `$env`, under the names that pyoco's translation has for them.
Roots = Mapping[str, Mapping[str, Any]]

_NODE: Final = "$node."
_NODE_PARTS: Final = 3  # $node.<node>.output

_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class _NotData(Exception):
    """A path that does not lead to data; the text says which part of it, and why."""


def resolve_input(value: Any, resolve: Callable[[Any], Any]) -> Any:
    """The value of a task's input; `resolve` is pyoco's way, used for everything but a path into a result."""
    if not isinstance(value, str) or not value.startswith(_NODE):
        return resolve(value)
    *node, path = value.split(".", _NODE_PARTS)
    if len(node) < _NODE_PARTS:
        return resolve(value)
    whole = resolve(".".join(node))
    try:
        return _follow(whole, path.split("."))
    except _NotData as error:
        raise InvalidReferenceError(value, str(error)) from None


def evaluate(expression: Expression, ctx: Mapping[str, Any], env: Mapping[str, Any]) -> Any:
    """The value of an expression of a loop or a branch, with the data of `$ctx` and `$env`."""
    try:
        return _value(_parsed(expression.source), {"_ctx": ctx, "_env": env})
    except Exception as error:
        message = f"Failed to evaluate expression '{expression.source}': {error}"
        raise ExpressionEvaluationError(message) from error


@lru_cache(maxsize=1024)
def _parsed(source: str) -> ast.expr:
    body: ast.expr = ast.parse(translate(source), mode="eval").body
    return body


def _value(node: ast.expr, roots: Roots) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Call(func=ast.Name(id=root), args=[ast.Constant(value=str(path))]):
            return _referenced(root, path, roots)
        case ast.BoolOp():
            return _logical(node, roots)
        case ast.Compare():
            return _compared(node, roots)
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, roots))
        case ast.BinOp():
            return _CALCULATE[type(node.op)](_value(node.left, roots), _value(node.right, roots))
    raise ValueError(f"unsupported syntax: {type(node).__name__}")


def _referenced(root: str, path: str, roots: Roots) -> Any:
    try:
        return _follow(roots[root], path.split("."))
    except (_NotData, KeyError) as error:
        why = f": {error}" if isinstance(error, _NotData) else ""
        raise ValueError(f"${root[1:]}.{path} not found{why}.") from None


def _logical(node: ast.BoolOp, roots: Roots) -> Any:
    stops_at = isinstance(node.op, ast.Or)
    value = None
    for part in node.values:
        value = _value(part, roots)
        if bool(value) is stops_at:
            break
    return value


def _compared(node: ast.Compare, roots: Roots) -> Any:
    left = _value(node.left, roots)
    result: Any = True
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = _value(part, roots)
        result = _COMPARE[type(op)](left, right)
        if not result:
            break
        left = right
    return result


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, str | bytes | list | tuple) and isinstance(right, str | bytes | list | tuple):
        _check_size(len(left) + len(right), MAX_LENGTH, "+", "items or characters")
    return left + right


def _multiplied(left: Any, right: Any) -> Any:
    _check_numbers("*", left, right)
    if isinstance(left, int) and isinstance(right, int):
        _check_size(left.bit_length() + right.bit_length(), MAX_BITS, "*", "bits")
    return left * right


def _remainder(left: Any, right: Any) -> Any:
    _check_numbers("%", left, right)
    return left % right


def _power(left: Any, right: Any) -> Any:
    """A flow.yaml may not use it; a Python flow may."""
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("the operator ** needs two numbers; compute it in a task")
    if isinstance(left, int) and isinstance(right, int):
        _check_size(left.bit_length() * right, MAX_BITS, "**", "bits")
    return left**right


def _check_numbers(sign: str, left: Any, right: Any) -> None:
    for value in (left, right):
        if not isinstance(value, Number):
            kind = type(value).__name__
            raise TypeError(f"the operator {sign} needs two numbers, not a {kind}; compute it in a task")


def _check_size(size: int, limit: int, sign: str, unit: str) -> None:
    if size > limit:
        raise ValueError(f"the result of {sign} would have more than {limit} {unit}; compute it in a task")


_CALCULATE: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: _added,
    ast.Sub: operator.sub,
    ast.Mult: _multiplied,
    ast.Div: operator.truediv,
    ast.Mod: _remainder,
    ast.Pow: _power,
}


def _follow(value: Any, parts: Sequence[str]) -> Any:
    """Keys of mappings, and data of objects. KeyError for a missing key, as in pyoco."""
    for part in parts:
        value = value[part] if isinstance(value, Mapping) else _attribute(value, part)
    return value


def _attribute(value: Any, name: str) -> Any:
    if name.startswith("_"):
        raise _NotData(f"{name!r} begins with '_'; a path leads to public data only")
    kind = type(value)
    # Functions, frames, generators and exceptions: each leads to the globals of a module.
    if kind.__module__ == "builtins" or isinstance(value, type | ModuleType):
        raise _NotData(f"{name!r} is not data: a value of the type {kind.__name__} has no fields")
    try:
        found = getattr(value, name)
    except AttributeError:
        raise _NotData(f"an object of the type {kind.__name__} has no {name!r}") from None
    if callable(found) or isinstance(found, ModuleType):
        raise _NotData(f"{name!r} of the type {kind.__name__} is a function or a module, not data")
    return found
