"""The message of a failed command: the error's id, what was wrong, and what to do."""

from collections.abc import Callable, Sequence

import typer

from pyoco_server.cli.translation import localized_usage_error
from pyoco_server.cli.views.console import discard_output
from pyoco_server.config import safe_url
from pyoco_server.errors import FieldProblem, InvalidCliArgument, PyocoError
from pyoco_server.errors.error_table import ERRORS, Err, Lang, system_language
from pyoco_server.http_client import PyocoHttpError


def failure_text(error: Exception, named_command: Callable[[], tuple[str, list[str]]]) -> str | None:
    """The message about this error; None when it is a bug of ours."""
    lang = system_language()
    if isinstance(error, typer.TyperException):
        return _usage_text(localized_usage_error(error.format_message()), *named_command(), lang)
    if isinstance(error, InvalidCliArgument):
        cause = localized_usage_error(error.detail) or "".join(
            f"\n  - {problem}" for problem in error.problems
        )
        return _usage_text(cause, *named_command(), lang)
    if isinstance(error, PyocoHttpError):
        return _http_error_text(error, lang)
    if isinstance(error, PyocoError):
        return _error_text(error, lang)
    if isinstance(error, OSError):
        discard_output()
        where = f"{error.filename}: " if error.filename else ""
        return f"I/O error: {where}{error.strerror or error}"
    return None


def _usage_text(cause: str, command: str, examples: Sequence[str], lang: Lang) -> str:
    error = Err.INVALID_CLI_ARGUMENT
    lines = [f"{error.err_id} {error.text(lang)}: {cause}"]
    lines += [f"  {'例' if lang == 'ja' else 'Example'}: {example}" for example in examples[:1]]
    return "\n".join([*lines, f"  {'ヘルプ' if lang == 'ja' else 'Help'}: {command} --help"])


def _error_text(error: PyocoError, lang: Lang) -> str:
    title = f"{error.error.err_id} {error.error.text(lang)}" + (f": {error.detail}" if error.detail else "")
    return "\n".join([title, *_problem_lines(error.problems), f"  {error.error.cure(lang)}"])


def _http_error_text(error: PyocoHttpError, lang: Lang) -> str:
    ids = f"{error.code} " if error.code else ""
    request = f"{error.request.method} {safe_url(str(error.request.url))}"
    title = f"{ids}{error.title} (HTTP {error.status}, {request})"
    if error.errors:  # the detail repeats them in one sentence
        cures = [f"  {spec.cure(lang)}" for spec in ERRORS if spec.err_id == error.err_id]
        return "\n".join([title, *_problem_lines(error.errors), *cures])
    # The detail is a whole sentence that mostly begins with the title.
    detail = error.detail.removeprefix(error.title).removeprefix(": ").strip()
    return f"{title}\n  {detail}" if detail else title


def _problem_lines(problems: Sequence[FieldProblem]) -> list[str]:
    return [f"  - {problem}" for problem in problems]
