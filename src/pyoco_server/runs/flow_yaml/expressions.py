"""The operators that pyoco lets an expression use without a bound on time or memory."""

from __future__ import annotations

import ast

from pyoco.dsl.expressions import translate


def unbounded_operator(expression: str) -> str | None:
    """Why the expression is refused, or None. Only what is written can be seen, not what a name holds."""
    if not expression:
        return None
    for node in ast.walk(ast.parse(translate(expression), mode="eval")):
        if not isinstance(node, ast.BinOp):
            continue
        if isinstance(node.op, ast.Pow):
            return "the operator ** is not allowed, because its result has no bound; compute it in a task"
        if isinstance(node.op, ast.Mult) and (_is_text(node.left) or _is_text(node.right)):
            return "a text cannot be repeated with *, because the result has no bound; make it in a task"
        if isinstance(node.op, ast.Mod) and _is_text(node.left):
            return "a text cannot be formatted with %, because the result has no bound; make it in a task"
    return None


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() | bytes()):
            return True
        case ast.BinOp():
            return _is_text(node.left) or _is_text(node.right)
        case ast.BoolOp():
            return any(_is_text(value) for value in node.values)
        case _:
            return False  # a reference, a number, or a comparison, which is a truth value
