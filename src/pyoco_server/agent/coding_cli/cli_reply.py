"""The reply of a coding CLI to the server, one JSON object in its output: a plan, a question or a summary."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyoco_server.agent.coding_cli.fenced_block import FencedBlock, block_in

_TEXT_CHARS: Final = 4000
_CHOICES: Final = 20
# Some CLIs print one JSON object, which has the text under one of these names.
_WRAPPERS: Final = ("response", "result", "output", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliQuestion:
    text: str
    why: str = ""
    format: str = ""
    choices: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "CliQuestion":
        return cls(**{**found, "choices": tuple(found.get("choices") or ())})


@dataclass(frozen=True, slots=True, kw_only=True)
class CliReply:
    plan: Any = None
    question: CliQuestion | None = None
    summary: str | None = None
    # Why the block could not be read; the call counts as one without a block.
    problem: str | None = None


def reply_of(block: FencedBlock, stdout_tail: str) -> CliReply:
    """The reply of a call; empty if the CLI printed no block."""
    text = block.last
    if text is None:
        text = _wrapped_block(stdout_tail)
    if text is None:
        return CliReply(problem="the `aiflow` block is too long" if block.too_long else None)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return CliReply(problem=f"the `aiflow` block is not valid JSON: {error}")
    if not isinstance(found, dict):
        return CliReply(problem="the `aiflow` block is not one JSON object")
    return CliReply(
        plan=found.get("plan"),
        question=_question(found.get("question")),
        summary=_text(found.get("summary")) or None,
    )


def _wrapped_block(stdout: str) -> str | None:
    """A block within the text of a CLI that prints its answer as JSON."""
    try:
        found = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    texts = [found[name] for name in _WRAPPERS if isinstance(found.get(name), str)]
    return next((block for text in texts if (block := block_in(text)) is not None), None)


def _question(found: Any) -> CliQuestion | None:
    """A question can be asked only if it is stated."""
    if isinstance(found, str):
        found = {"text": found}
    if not isinstance(found, dict) or not (text := _text(found.get("text"))):
        return None
    choices = found.get("choices")
    given = choices if isinstance(choices, list) else []
    return CliQuestion(
        text=text,
        why=_text(found.get("why")),
        format=_text(found.get("format")),
        choices=tuple(line for each in given[:_CHOICES] if (line := _text(each))),
    )


def _text(found: Any) -> str:
    if not isinstance(found, str):
        return ""
    cleaned = re.sub(r"[^\S\n]+", " ", "".join(c if c.isprintable() or c == "\n" else " " for c in found))
    return cleaned.strip()[:_TEXT_CHARS]
