"""What a key may be used for; a key without scopes may do all that its tenant can."""

from collections.abc import Iterable
from enum import StrEnum

from pyoco_server.errors import FieldProblem, InvalidCliArgument, shortened


class Scope(StrEnum):
    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    WHEELS = "wheels"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)


def parse_scopes(words: Iterable[str]) -> list[Scope]:
    """The scopes named, each once, in the order of the table; InvalidCliArgument names each that is none."""
    given = list(words)
    problems = [
        FieldProblem("scope", f"wanted one of {', '.join(Scope)}", value=shortened(word))
        for word in given
        if word not in set(Scope)
    ]
    if problems:
        raise InvalidCliArgument(problems=problems)
    return [scope for scope in Scope if scope in given]
