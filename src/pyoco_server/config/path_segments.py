"""A name as one segment of the path of a URL: for the client and the tools for agents."""

from urllib.parse import quote

from pyoco_server.errors import FieldProblem, InvalidRequest


def path_segment(field: str, name: str) -> str:
    """The name, quoted; InvalidRequest if it cannot be one.

    `.` and `..` are steps within a path, also when they are quoted: clients and proxies resolve them, and the
    request would go to another endpoint.
    """
    if name in (".", ".."):
        message = "`.` and `..` cannot be sent as names in a URL"
        raise InvalidRequest(problems=[FieldProblem(field, message, value=f'"{name}"')])
    return quote(name, safe="")
