"""What the audit log keeps of the requests to an endpoint.

Fields are named one by one: params, answers, data of signals and secrets are never among them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRule:
    # The kind of the target, a dot, and what is done to it.
    action: str
    # Where the id of the target is: a parameter of the path, else a field of the response or of the request.
    # A dot separates the fields of fields.
    id: tuple[str, ...] = ()
    # Where its name is in the response.
    name: tuple[str, ...] = ()
    # The run that it is done to, where that is not the target: a field of the response.
    run: str = ""
    # Details: fields of the request, and of the response.
    request: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    # A detail `changed`: the names of the fields of the request, without their values.
    changes: bool = False

    @property
    def kind(self) -> str:
        return self.action.partition(".")[0]
