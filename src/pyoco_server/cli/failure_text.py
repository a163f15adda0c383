"""What a person reads when a command fails: the error's id, what was wrong, and what to do."""

from collections.abc import Sequence

from pyoco_server.config import safe_url
from pyoco_server.errors import FieldProblem, PyocoError
from pyoco_server.errors.error_table import ERRORS, Err, Lang
from pyoco_server.http_client import PyocoHttpError


def usage_text(what: str, *, examples: Sequence[str], help_command: str, lang: Lang) -> str:
    """About a command line that cannot be understood, with one that can."""
    error = Err.INVALID_CLI_ARGUMENT
    lines = [f"{error.err_id} {error.text(lang)}: {what}"]
    lines += [f"  {'例' if lang == 'ja' else 'Example'}: {example}" for example in examples]
    lines += [f"  {'ヘルプ' if lang == 'ja' else 'Help'}: {help_command} --help"]
    return "\n".join(lines)


def error_text(error: PyocoError, lang: Lang) -> str:
    """About an error that this program met itself."""
    lines = [f"{error.error.err_id} {error.error.text(lang)}"]
    if error.detail:
        lines[0] += f": {error.detail}"
    lines += _problem_lines(error.problems)
    return "\n".join([*lines, f"  {error.error.cure(lang)}"])


def io_error_text(error: OSError) -> str:
    """About a file, or the output, that cannot be read or written."""
    where = f"{error.filename}: " if error.filename else ""
    return f"Input or output failed: {where}{error.strerror or error}"


def http_error_text(error: PyocoHttpError, lang: Lang) -> str:
    """About an answer of the gateway, whose words are in the language `lang` that was asked for."""
    ids = f"{error.err_id} " if error.err_id else ""
    request = f"{error.request.method} {safe_url(str(error.request.url))}"
    title = f"{ids}{error.title} (HTTP {error.status}, {request})"
    if error.errors:  # the detail says the same once more, in one sentence
        cures = [f"  {spec.cure(lang)}" for spec in ERRORS if spec.err_id == error.err_id]
        return "\n".join([title, *_problem_lines(error.errors), *cures])
    # The detail is a whole sentence and mostly begins with the title, which stands above it already.
    return f"{title}\n  {error.detail.removeprefix(error.title).removeprefix(': ')}"


def _problem_lines(problems: Sequence[FieldProblem]) -> list[str]:
    return [f"  - {problem}" for problem in problems]
