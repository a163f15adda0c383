"""Questions of a run to a person, as waits of the run: while one is open, the worker is free."""

from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.request_file import RequestStatus, answer_key

_ANSWER_CHARS: Final = 20_000


def answer_schema(choices: tuple[str, ...] = ()) -> dict[str, Any]:
    """Any text is an answer; the choices are proposals. `POST /requests/{id}/resume` sends its text."""
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": _ANSWER_CHARS, "title": "Answer"}
    return schema | ({"examples": list(choices)} if choices else {})


def question_text(question: CliQuestion) -> str:
    """The question, why it is asked, and what an answer looks like."""
    parts = [question.text]
    if question.why:
        parts.append(f"Why: {question.why}")
    if question.format:
        parts.append(f"Answer: {question.format}")
    if question.choices:
        parts.append("Choices: " + " / ".join(question.choices))
    return "\n\n".join(parts)


def ask(ctx: Any, session: WorkSession, question: CliQuestion, number: int, prefix: str = "") -> str:
    """The answer of a person; until there is one, the run is parked and the request needs input."""
    text = question_text(question)
    start = f"{prefix}-" if prefix else ""
    name = f"{start}question-{number}"
    try:
        answer = ctx.human(
            f"{session.request_id}: {text}",
            schema=answer_schema(question.choices),
            name=name,
            timeout_ms=session.settings.question_timeout_sec * 1000,
        )
    except BaseException:
        # Raised to park the run; the task is called again when there is an answer.
        session.log.say("QUESTION", question.text)
        session.files.write_error(_as_error(question))
        session.write_status(RequestStatus.NEEDS_INPUT, blocked=text)
        raise
    return str(ctx.step(f"{start}answer-{number}", lambda: _received(session, name, str(answer))))


def _received(session: WorkSession, name: str, answer: str) -> str:
    """Append the answer to the want, where the next prompt and every reader finds it."""
    session.log.say("ANSWER", answer)
    key, at = answer_key(session.run_number, session.stage.task, name), session.now()
    session.edit_request(lambda file: file.answered(answer, key=key, at=at))
    session.write_status(RequestStatus.RUNNING)
    return answer


def _as_error(question: CliQuestion) -> AgentError:
    return AgentError(AgentCode.AMBIGUOUS_REQUIREMENT, question.text, details=question.as_json())
