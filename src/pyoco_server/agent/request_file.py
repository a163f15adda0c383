"""One request as a Markdown file: a YAML header, then the want (`# 要望`), Plan and Report.

A person may edit the file at any time. So a change replaces the lines of the fields that it names and leaves
everything else as it is: comments, unknown keys, other sections. Of a header that is not valid YAML nothing
is changed; its raw text can be read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeVar

import yaml

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.request_ids import is_run_number
from pyoco_server.errors import shortened

WANT: Final = "# 要望"
PLAN: Final = "## Plan"
REPORT: Final = "## Report"
_ORDER: Final = (WANT, PLAN, REPORT)
_NEWLINE: Final = "\n"
_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s|$)")
# YAML takes seconds for this much; a question with all of its choices is a third of it.
_MAX_HEADER_CHARS: Final = 256 * 1024
_COUNT: Final = re.compile(r"[0-9]{1,9}")
# In an answer itself it is shown, and marks nothing.
_ANSWER_MARK: Final = re.compile(r"(?m)^(?=<!-- aiflow-answer: )")
_BACKSLASH: Final = r"\\"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


_Enum = TypeVar("_Enum", bound=StrEnum)


class RequestStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    NEEDS_INPUT = "needs_input"
    FAILED = "failed"
    DONE = "done"


class Priority(StrEnum):
    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


# In the order in which they are written; unknown keys follow.
HEADER_KEYS: Final = (
    "id", "title", "priority", "status", "base", "branch", "tags", "created_at", "updated_at",
    "run_id", "phase", "attempt", "blocked_reason", "failure_reason", "pr_url", "last_commit",
)  # fmt: skip


class _TextLoader(yaml.BaseLoader):
    """Every scalar is a text: `001` stays `001`, and a time is not converted.

    An alias is refused: a few lines of them are a value of any size as soon as it is copied or compared.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "an alias (*name) cannot be used here", mark)
        return super().compose_node(parent, index)


@dataclass(frozen=True)
class RequestFile:
    """The content of one file; `changed` gives another one."""

    request_id: str
    raw: str
    # The parsed header; empty if there is none, or if it is broken.
    fields: Mapping[str, Any] = field(default_factory=dict)
    # Why the header cannot be read; such a file can be read as `raw` only.
    problem: str | None = None

    @classmethod
    def parse(cls, request_id: str, raw: str) -> "RequestFile":
        header, _ = _split(raw)
        if header is None:
            text = "there is no header: the first line must be '---', and another '---' must end it"
            return cls(request_id, raw, problem=text)
        if len(header) > _MAX_HEADER_CHARS:
            return cls(request_id, raw, problem=f"the header has more than {_MAX_HEADER_CHARS} characters")
        try:
            found = yaml.load(header, _TextLoader)  # noqa: S506 - makes texts, lists and dictionaries only
        except (yaml.YAMLError, RecursionError) as error:
            return cls(request_id, raw, problem=f"the header is not valid YAML: {_first_line(error)}")
        if found is None or found == "":
            found = {}
        if not isinstance(found, dict):
            return cls(request_id, raw, problem="the header is not a list of `key: value` lines")
        return cls(
            request_id, raw, {key: _plain(value) for key, value in found.items() if isinstance(key, str)}
        )

    # The header, with what holds where a person has removed a field.

    @property
    def title(self) -> str:
        return self._text("title") or self.request_id

    @property
    def priority(self) -> Priority:
        return _member(Priority, self._text("priority")) or Priority.P2

    @property
    def status(self) -> RequestStatus:
        return _member(RequestStatus, self._text("status")) or RequestStatus.QUEUED

    @property
    def base(self) -> str | None:
        """None: the default of the settings."""
        return self._text("base")

    @property
    def branch(self) -> str | None:
        """None: the prefix of the settings and the id."""
        return self._text("branch")

    @property
    def tags(self) -> list[str]:
        found = self.fields.get("tags")
        if isinstance(found, str):
            return [tag for part in found.split(",") if (tag := part.strip())]
        return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []

    @property
    def run_number(self) -> str | None:
        """None for what cannot be one; a person may have written 1 for '001'."""
        found = (self._text("run_id") or "").rjust(3, "0")
        return found if is_run_number(found) and int(found) > 0 else None

    def is_of_later_run(self, run_number: str) -> bool:
        """Whether the file has the state of a later run than this one, which must not overwrite it."""
        return self.run_number is not None and int(self.run_number) > int(run_number)

    @property
    def attempt(self) -> int | None:
        found = self._text("attempt")
        return int(found) if found is not None and _COUNT.fullmatch(found) else None

    def text(self, key: str) -> str | None:
        """A field that is a text; None if it is missing, empty or something else."""
        return self._text(key)

    @property
    def field_problems(self) -> list[str]:
        """What a person has to correct in the header; the defaults hold meanwhile."""
        problems = []
        given = self._text("priority")
        if given is not None and _member(Priority, given) is None:
            problems.append(f"priority={shortened(given)}: use one of P0, P1, P2, P3; P2 is used")
        given = self._text("status")
        if given is not None and _member(RequestStatus, given) is None:
            known = ", ".join(RequestStatus)
            problems.append(f"status={shortened(given)}: use one of {known}; queued is used")
        given = self._text("id")
        if given is not None and given != self.request_id:
            problems.append(f"id={shortened(given)}: the name of the file counts, {self.request_id}")
        return problems

    def _text(self, key: str) -> str | None:
        found = self.fields.get(key)
        return found if isinstance(found, str) and found not in _NULLS else None

    # The body

    @property
    def want(self) -> str | None:
        return self._sections.want

    @property
    def plan(self) -> str | None:
        return self._sections.plan

    @property
    def report(self) -> str | None:
        return self._sections.report

    @cached_property
    def _sections(self) -> "_Sections":
        return _Sections.of(_split(self.raw)[1])

    def changed(
        self,
        fields: Mapping[str, Any] | None = None,
        *,
        want: str | None = None,
        plan: str | None = None,
        report: str | None = None,
    ) -> "RequestFile":
        """The file with other values; a field of None is removed. AgentError if the header is broken."""
        header, body = _split(self.raw)
        if header is None or self.problem is not None:
            raise AgentError(
                AgentCode.REQUEST_UNREADABLE,
                f"The header of the request {self.request_id} cannot be changed: {self.problem}.",
                hint="Correct the lines between the two '---' in an editor.",
            )
        sections = _Sections.of(body)
        if want is not None:
            body = sections.with_section(WANT, want)
        if plan is not None:
            body = _Sections.of(body).with_section(PLAN, plan)
        if report is not None:
            body = _Sections.of(body).with_section(REPORT, report)
        new = _with_fields(header, fields or {}, self.fields)
        return RequestFile.parse(self.request_id, f"{_FENCE}\n{new}{_FENCE}\n{body}")

    def answered(self, text: str, *, key: str, at: datetime) -> "RequestFile":
        """The file with an answer at the end of its want, under a dated heading.

        `key` is that of the question (`answer_key`). Gateway and worker both write an answer; whoever comes
        later finds the key. The same text is written again as the answer to another question.
        """
        want, mark = (self.want or "").strip(), f"<!-- aiflow-answer: {key} -->"
        if mark in want.split("\n"):
            return self
        body = _ANSWER_MARK.sub(_BACKSLASH, _escaped(text.strip(), _ORDER))
        answer = f"### 回答 ({at:%Y-%m-%d %H:%M})\n{mark}\n\n{body}"
        return self.changed(want=f"{want}\n\n{answer}" if want else answer)


def new_request_text(fields: Mapping[str, Any], want: str) -> str:
    """The whole text of a new file with the sections that it must have."""
    header = _with_fields("", fields, {})
    body = _Sections.of("").with_section(WANT, want)
    return f"{_FENCE}\n{header}{_FENCE}\n\n{body.lstrip()}"


def one_line(text: str) -> str:
    """Of a title, a tag, a step or a subject: control characters and newlines are spaces."""
    cleaned = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(cleaned.split())


def answer_key(run_number: str, task: str, question: str) -> str:
    """Names a question of a request: its run, the task that asks, and the name of the wait."""
    return f"{run_number} {task} {question}"


def _split(raw: str) -> tuple[str | None, str]:
    """The header without its fences, and the body; None if there is no header."""
    lines = _lines(raw.removeprefix("\ufeff"))
    if not lines or lines[0].rstrip() != _FENCE:
        return None, raw
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "".join(lines[1:number]), "".join(lines[number + 1 :])
    return None, raw


def _plain(value: Any) -> Any:
    return None if isinstance(value, str) and value in _NULLS else value


def _member(kind: type[_Enum], given: str | None) -> _Enum | None:
    return next((member for member in kind if member == given), None)


def _first_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # The mark counts from 0, and the fence is a line of the file.
        return f"{error.problem} in line {error.problem_mark.line + 2}"
    return str(error).partition("\n")[0]


def _with_fields(header: str, changes: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Replace the lines of the changed keys only."""
    blocks = _blocks(header)
    for key, value in changes.items():
        if key in known and known[key] == _as_read(value):
            continue
        line = "" if value is None else _dumped(key, value)
        places = [place for place, (name, _) in enumerate(blocks) if name == key]
        if not places:
            if line:
                blocks.insert(_place_of(key, blocks), (key, line))
            continue
        blocks[places[0]] = (key, line)
        # YAML reads the last of several; the new value is the only one.
        for place in reversed(places[1:]):
            del blocks[place]
    text = "".join(block for _, block in blocks)
    return _checked(text, changes, known)


def _checked(text: str, changes: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The text if YAML reads what was meant, else all fields written again: a header may be one `{...}`."""
    expected = {key: value for key, value in {**known, **changes}.items() if value is not None}
    try:
        found = yaml.load(text, _TextLoader) or {}  # noqa: S506
    except yaml.YAMLError:
        found = None
    if isinstance(found, dict):
        read = {key: value for key, value in found.items() if _plain(value) is not None}
        if read == {key: _as_read(value) for key, value in expected.items()}:
            return text
    return "".join(_dumped(key, value) for key, value in expected.items())


def _blocks(header: str) -> list[tuple[str | None, str]]:
    """The header as its top-level fields with their continuation lines, comments apart."""
    blocks: list[tuple[str | None, str]] = []
    for line in _lines(header):
        text = line if line.endswith("\n") else f"{line}\n"
        match = _KEY.match(line)
        if match is not None:
            blocks.append((match[1], text))
        elif line.startswith("#") or not blocks:
            blocks.append((None, text))
        else:
            name, before = blocks[-1]
            blocks[-1] = (name, before + text)
    return blocks


def _place_of(key: str, blocks: Sequence[tuple[str | None, str]]) -> int:
    """After the last field that belongs before it; unknown keys come last."""
    order = {name: number for number, name in enumerate(HEADER_KEYS)}
    number = order.get(key, len(order))
    places = [place for place, (name, _) in enumerate(blocks) if name in order and order[name] < number]
    return (places[-1] + 1) if places and number < len(order) else len(blocks)


def _dumped(key: str, value: Any) -> str:
    plain = value if type(value) is int else _as_read(value)
    return yaml.safe_dump({key: plain}, allow_unicode=True, sort_keys=False, width=10_000)


def _as_read(value: Any) -> Any:
    """What reading it again gives: texts, also of numbers and enumerations."""
    if isinstance(value, list | tuple):
        return [_as_read(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _as_read(each) for key, each in value.items()}
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class _Sections:
    """The body: lines before the want, then want, plan and report; None for one that is missing."""

    before: str
    want: str | None
    plan: str | None
    report: str | None

    @classmethod
    def of(cls, body: str) -> "_Sections":
        places = _headings(body)
        starts = [*places.values(), len(body)]
        parts: dict[str, str] = {}
        for number, (heading, start) in enumerate(places.items()):
            parts[heading] = body[start : starts[number + 1]].partition("\n")[2].strip("\n")
        return cls(body[: starts[0]], parts.get(WANT), parts.get(PLAN), parts.get(REPORT))

    def with_section(self, heading: str, text: str) -> str:
        parts = {WANT: self.want or "", PLAN: self.plan or "", REPORT: self.report or ""}
        parts[heading] = _escaped(text, _ORDER[_ORDER.index(heading) :] if heading != WANT else _ORDER)
        before = self.before.strip("\n")
        return (f"\n{before}\n" if before else "") + "".join(map(_section, parts, parts.values()))


def _section(heading: str, text: str) -> str:
    return f"\n{heading}\n\n{text.strip(_NEWLINE)}\n" if text.strip() else f"\n{heading}\n"


def _headings(body: str) -> dict[str, int]:
    """Where the sections start, in their order: the want may contain other headings, and code with any."""
    places, is_closed = _headings_outside_code(body)
    if is_closed:
        return places
    # A code block that is never closed must not hide the sections after it.
    return _headings_outside_code(re.sub(r"(?m)^( {0,3})(`{3}|~{3})", r"\1\\\\\\", body))[0]


def _headings_outside_code(body: str) -> tuple[dict[str, int], bool]:
    places: dict[str, int] = {}
    offset, fence = 0, None
    for line in _lines(body):
        text = line.rstrip()
        fence = _fence_after(fence, text)
        if fence is None and text in _ORDER and not places.keys() & _ORDER[_ORDER.index(text) :]:
            places[text] = offset
        offset += len(line)
    return places, fence is None


def _fence_after(fence: str | None, line: str) -> str | None:
    """The fence of the code block that the next line is in."""
    marker = re.match(r" {0,3}(`{3,}|~{3,})", line)
    if marker is None:
        return fence
    if fence is None:
        return marker[1]
    closes = line.strip() == marker[1] and marker[1][0] == fence[0] and len(marker[1]) >= len(fence)
    return None if closes else fence


def _escaped(text: str, headings: Sequence[str]) -> str:
    """A text that does not end its own section: such a heading gets a backslash, which Markdown hides.

    A code block that it leaves open is closed.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    lines, fence = [], None
    for line in text.encode("utf-8", "backslashreplace").decode().split("\n"):
        fence = _fence_after(fence, line.rstrip())
        lines.append(f"\\{line}" if fence is None and line.rstrip() in headings else line)
    return "\n".join(lines if fence is None else [*lines, fence])


def _lines(text: str) -> list[str]:
    """Split at newlines only: str.splitlines knows seven further characters."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
