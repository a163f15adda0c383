"""Which references and expressions a flow.yaml may contain; the worker bounds their values."""

import ast

from pyoco.dsl.expressions import translate


def path_problem(reference: str) -> str | None:
    """Why a reference such as `$node.a.output.rows` is refused, or None.

    An attribute that begins with `_` leads from a value to the code that made it, and to every module.
    """
    for part in reference.split("."):
        if part.startswith("_"):
            return (
                f"{part!r} begins with '_', so that the path may lead out of the data of the run; "
                "name a public field, or read the value in a task"
            )
    return None


def expression_problem(expression: str) -> str | None:
    """Why an expression of a loop or a branch is refused, or None."""
    if not expression:
        return None
    for node in ast.walk(ast.parse(translate(expression), mode="eval")):
        match node:
            case ast.Call(func=ast.Name(id="_ctx"), args=[ast.Constant(value=str(path))]):
                found = path_problem(path)
            case ast.BinOp():
                found = _unbounded_operator(node)
            case _:
                continue
        if found is not None:
            return found
    return None


def _unbounded_operator(node: ast.BinOp) -> str | None:
    """pyoco bounds neither time nor memory. The values of references are known to the worker only."""
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
