"""The command line of a coding CLI: a template per role, with placeholders inside its arguments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_settings import PLACEHOLDER

# Linux accepts 128 KiB in one argument.
_MAX_ARGUMENT_BYTES: Final = 100 * 1024


def filled(template: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace the placeholders, in one pass: text of a prompt is never taken for a placeholder."""
    return [PLACEHOLDER.sub(lambda match: values[match[1]], part) for part in template]


def cli_arguments(
    template: Sequence[str], *, model: str, workdir: Path, prompt: str, prompt_file: Path
) -> list[str]:
    """The argument list; a prompt that is too long for one argument is named by its file."""
    if len(prompt.encode(errors="backslashreplace")) > _MAX_ARGUMENT_BYTES:
        prompt = f"Read your whole task from the file {prompt_file} and do exactly what it says."
    # An argument ends at a NUL.
    values = {
        "model": model,
        "workdir": str(workdir),
        "prompt": prompt.replace("\0", " "),
        "prompt_file": str(prompt_file),
    }
    return filled(template, values)
