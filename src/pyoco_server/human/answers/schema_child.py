"""The process that checks answers against schemas: one at a time, as lines of JSON."""

import sys
from typing import Any

import msgspec
from msgspec import Struct

from pyoco_server.errors import FieldProblem
from pyoco_server.human.answers.answer_schemas import check_schema, problems_of


class Check(Struct):
    value: Any
    schema: dict[str, Any] | bool
    at: str


class Found(Struct):
    problems: list[FieldProblem] = []
    # What is wrong with the schema itself.
    schema: str | None = None


decode_found = msgspec.json.Decoder(Found).decode
_decode_check = msgspec.json.Decoder(Check).decode


def checked(check: Check) -> Found:
    try:
        check_schema(check.schema)
    except ValueError as error:
        return Found(schema=str(error))
    return Found(problems=problems_of(check.value, check.schema, at=check.at))


def main() -> None:
    # JSON has no line break of its own: inside a text it is written as \n.
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(checked(_decode_check(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
