"""The error codes of agent requests, and the exception that carries one."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class AgentCode(StrEnum):
    """Fixed texts, by which a page can tell errors apart."""

    NO_REPOSITORY = "NO_REPOSITORY"
    REQUEST_NOT_FOUND = "REQUEST_NOT_FOUND"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    ARTIFACT_NOT_FOUND = "ARTIFACT_NOT_FOUND"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_PRIORITY = "INVALID_PRIORITY"
    INVALID_STATUS = "INVALID_STATUS"
    FILE_ALREADY_EXISTS = "FILE_ALREADY_EXISTS"
    FILE_NOT_WRITABLE = "FILE_NOT_WRITABLE"
    REQUEST_UNREADABLE = "REQUEST_UNREADABLE"
    CANNOT_EDIT_WHILE_RUNNING = "CANNOT_EDIT_WHILE_RUNNING"
    ALREADY_RUNNING = "ALREADY_RUNNING"
    NOT_RUNNING = "NOT_RUNNING"
    NOT_NEEDS_INPUT = "NOT_NEEDS_INPUT"
    WORKTREE_DIRTY = "WORKTREE_DIRTY"
    BASE_BRANCH_NOT_FOUND = "BASE_BRANCH_NOT_FOUND"
    REMOTE_ORIGIN_MISSING = "REMOTE_ORIGIN_MISSING"
    GIT_NOT_INSTALLED = "GIT_NOT_INSTALLED"
    NOT_A_GIT_REPO = "NOT_A_GIT_REPO"
    GIT_CONFIG_UNTRUSTED = "GIT_CONFIG_UNTRUSTED"
    LOCK_HELD = "LOCK_HELD"
    COMMAND_NOT_FOUND = "COMMAND_NOT_FOUND"
    COMMAND_FAILED = "COMMAND_FAILED"
    UNIT_TEST_FAILED = "UNIT_TEST_FAILED"
    E2E_TEST_FAILED = "E2E_TEST_FAILED"
    PUSH_FAILED = "PUSH_FAILED"
    AUTH_REQUIRED = "AUTH_REQUIRED"
    PLAN_INVALID = "PLAN_INVALID"
    STEP_TOO_LARGE = "STEP_TOO_LARGE"
    RETRY_EXCEEDED = "RETRY_EXCEEDED"
    AMBIGUOUS_REQUIREMENT = "AMBIGUOUS_REQUIREMENT"
    WORK_NOT_SAVED = "WORK_NOT_SAVED"
    INTERNAL_ERROR = "INTERNAL_ERROR"


_NOT_CONFLICTS: Final = {
    AgentCode.NO_REPOSITORY: 404,
    AgentCode.REQUEST_NOT_FOUND: 404,
    AgentCode.RUN_NOT_FOUND: 404,
    AgentCode.ARTIFACT_NOT_FOUND: 404,
    AgentCode.INVALID_REQUEST: 400,
    AgentCode.INVALID_PRIORITY: 400,
    AgentCode.INVALID_STATUS: 400,
    AgentCode.INTERNAL_ERROR: 500,
}


def status_of(code: AgentCode) -> int:
    return _NOT_CONFLICTS.get(code, 409)


class AgentError(Exception):
    """What went wrong, and the cure (`hint`)."""

    def __init__(
        self,
        code: AgentCode,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    @property
    def status(self) -> int:
        """The HTTP status of the response: most errors say that the state of something is in the way."""
        return status_of(self.code)

    def as_json(self) -> dict[str, Any]:
        """The value of `error` in a response, and what errors.json contains."""
        details = self.details | ({} if self.hint is None else {"hint": self.hint})
        return {"code": str(self.code), "message": self.message, "details": details}

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        return text if self.hint is None else f"{text} ({self.hint})"
