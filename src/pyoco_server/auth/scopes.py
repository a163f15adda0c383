"""Scopes of API keys. A key without scopes has all of them."""

from collections.abc import Iterable
from enum import StrEnum

from pyoco_server.errors import FieldProblem, InvalidCliArgument, shortened


class Scope(StrEnum):
    SUBMIT = "submit"
    READ = "read"
    ANSWER = "answer"
    # Read hooks, workflow events, their templates and actions.
    EVENTS = "events"
    # Read and change them.
    TRIGGERS = "triggers"
    OPERATE = "operate"
    WORKERS = "workers"
    WHEELS = "wheels"
    # The audit log: who did what.
    AUDIT = "audit"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)


def parse_scopes(words: Iterable[str]) -> list[Scope]:
    """Each scope once, in the order of the enumeration; InvalidCliArgument names the unknown ones."""
    given = list(words)
    problems = [
        FieldProblem("scope", f"expected one of {', '.join(Scope)}", value=shortened(word))
        for word in given
        if word not in set(Scope)
    ]
    if problems:
        raise InvalidCliArgument(problems=problems)
    return [scope for scope in Scope if scope in given]
