"""Names of branches that are safe in a command, in a refspec and in a web address."""

import re
from typing import Final

_MAX_CHARS: Final = 200
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")


def branch_problem(name: str) -> str | None:
    """Why this is not the name of a branch; None if it is.

    Stricter than `git check-ref-format`: ASCII only, no `-` at the start, nothing that a refspec interprets.
    """
    if len(name) > _MAX_CHARS:
        return f"it has more than {_MAX_CHARS} characters"
    if _ALLOWED.fullmatch(name) is None:
        return "it may contain A-Z, a-z, 0-9 and _ . / + -, and starts with a letter, a digit or _"
    if ".." in name or "//" in name or name.endswith(("/", ".", ".lock")):
        return "it must not contain '..' or '//', nor end with '/', '.' or '.lock'"
    if any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        return "no part of it starts with '.' or ends with '.lock'"
    if name in {"HEAD", "FETCH_HEAD", "ORIG_HEAD"} or name.startswith("refs/"):
        return "it is a name that git uses itself"
    return None
