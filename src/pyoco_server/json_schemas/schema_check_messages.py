"""What is sent to the process that checks values against JSON Schemas, and what it replies."""

from typing import Any

from msgspec import Struct, structs

from pyoco_server.errors import FieldProblem

Schema = dict[str, Any] | bool


class SchemaCheck(Struct):
    value: Any
    schema: Schema


class ValueProblem(Struct, frozen=True):
    """What is wrong with a part of a value."""

    # The keys and indexes that lead to it. A key may contain anything, also dots.
    path: tuple[str | int, ...]
    message: str
    value: str | None = None  # shortened

    def below(self, step: str | int) -> "ValueProblem":
        """The same, of the value that has this one at `step`."""
        return structs.replace(self, path=(step, *self.path))

    def dotted(self, at: str) -> FieldProblem:
        """Such as `payload.lines.0.text`, as answers are refused."""
        steps = [at, *map(str, self.path)] if at else map(str, self.path)
        return FieldProblem(".".join(steps), self.message, self.value)

    def bracketed(self, at: str) -> FieldProblem:
        """Such as `params.lines[0].text`, as params are refused."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return FieldProblem(at + "".join(steps), self.message, self.value)


class SchemaCheckResult(Struct):
    problems: list[ValueProblem] = []
    # What is wrong with the schema itself.
    schema_error: str | None = None
