"""The arguments of `ctx.human`, validated and converted to JSON."""

import json
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.records.nesting import MAX_INPUT_NESTING, is_json_nested_deeper
from pyoco_server.records.waits.wait_models import OnTimeout, Question, encode
from pyoco_server.waits.human.answer_types import EXPECTED_SCHEMA, plain_value, schema_of_type

DEFAULT_NAME: Final = "human"
MAX_MESSAGE_CHARS: Final = 10_000
MAX_NAME_CHARS: Final = 200
_RECEIVER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_ASSIGNEES: Final = 100
# Of an assignee that is a group of API keys.
GROUP_PREFIX: Final = "group:"
# In JSON: half of the default payload limit of NATS, so that the record has room for the answer.
MAX_QUESTION_BYTES: Final = 512 * 1024
# 366 days.
MAX_TIMEOUT_MS: Final = 366 * 86_400_000


def question(
    message: str,
    *,
    node: str,
    task: str,
    schema: Any = None,
    timeout_ms: float | None = None,
    name: str | None = None,
    proposal: Any = None,
    assignees: Sequence[str] | None = None,
    default: Any = ...,
    on_timeout: str = OnTimeout.FAIL,
    isolated: bool = False,
    required: int = 1,
    self_approval: bool = True,
    notify: str | None = None,
    remind_after_ms: float | None = None,
    escalate_after_ms: float | None = None,
    escalate_to: str | None = None,
    submitted_by: str | None = None,
) -> Question:
    """ValueError or TypeError names the invalid argument, and what was expected.

    `submitted_by` is the id of the API key that submitted the run, if it has one.
    """
    if not isinstance(message, str) or not 0 < len(message) <= MAX_MESSAGE_CHARS:
        raise _wrong("message", message, f"a text of 1 to {MAX_MESSAGE_CHARS} characters")
    asked = Question(
        node=node,
        task=task,
        name=_checked_name(name),
        message=message,
        timeout_sec=_seconds("timeout_ms", timeout_ms),
        schema=_json_schema(schema),
        proposal=UNSET if proposal is None else json_value(proposal, call="ctx.human(", argument="proposal"),
        assignees=_checked_assignees(assignees),
        default=UNSET if default is ... else json_value(default, call="ctx.human(", argument="default"),
        on_timeout=_checked_on_timeout(on_timeout, isolated=isolated),
        required=_checked_required(required),
        self_approval=_checked_flag("self_approval", self_approval),
        notify=_checked_receiver("notify", notify),
        escalate_to=_checked_receiver("escalate_to", escalate_to),
        remind_sec=_seconds("remind_after_ms", remind_after_ms),
        escalate_sec=_seconds("escalate_after_ms", escalate_after_ms),
    )
    if asked.default is not UNSET and on_timeout == OnTimeout.RAISE:
        raise ValueError("ctx.human(default=..., on_timeout='raise'): expected one of the two")
    _check_approvals(asked, submitted_by)
    check_size(asked)
    _check_values(asked)
    return asked


def _checked_name(name: str | None) -> str:
    if name is None:
        return DEFAULT_NAME
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or "|" in name:
        raise _wrong("name", name, f"1 to {MAX_NAME_CHARS} characters without '|'")
    return name


def _seconds(field: str, milliseconds: float | None) -> float | None:
    if milliseconds is None:
        return None
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    if not is_number or not math.isfinite(milliseconds) or not 0 < milliseconds <= MAX_TIMEOUT_MS:
        raise _wrong(field, milliseconds, f"milliseconds, more than 0 and at most {MAX_TIMEOUT_MS}")
    return milliseconds / 1000


def _checked_receiver(field: str, name: str | None) -> str | None:
    """A name, never a URL: which addresses the gateways may call is up to their operator."""
    if name is None or (isinstance(name, str) and _RECEIVER.fullmatch(name)):
        return name
    raise _wrong(field, name, "the name of a receiver in PYOCO_NOTIFY_TARGETS, of letters, digits, _ . -")


def _checked_on_timeout(on_timeout: str, *, isolated: bool) -> OnTimeout:
    if on_timeout not in (OnTimeout.FAIL, OnTimeout.RAISE):
        raise _wrong("on_timeout", on_timeout, "'fail' or 'raise'")
    return OnTimeout.ISOLATE if isolated else OnTimeout(on_timeout)


def _checked_assignees(assignees: Sequence[str] | None) -> list[str]:
    if assignees is None:
        return []
    names = [assignees] if isinstance(assignees, str) else list(assignees)
    if len(names) > MAX_ASSIGNEES or not all(
        isinstance(name, str) and names_somebody(name) for name in names
    ):
        raise _wrong("assignees", assignees, f"at most {MAX_ASSIGNEES} names or ids of API keys")
    return names


def names_somebody(assignee: str) -> bool:
    """Whether it can be the name of a key or of a group; nobody could answer for a blank one."""
    return bool(assignee.removeprefix(GROUP_PREFIX).strip())


def known_approvers(assignees: Collection[str], excluded: Collection[str]) -> int | None:
    """How many of the assignees may answer; None if that is not known: everybody may, or a group."""
    if not assignees or any(name.startswith(GROUP_PREFIX) for name in assignees):
        return None
    return len(set(assignees).difference(excluded))


def _checked_required(required: int) -> int:
    is_count = isinstance(required, int) and not isinstance(required, bool)
    if not is_count or not 1 <= required <= MAX_ASSIGNEES:
        raise _wrong("required", required, f"how many people have to approve, 1 to {MAX_ASSIGNEES}")
    return required


def _checked_flag(field: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, value, "True or False")
    return value


def _check_approvals(asked: Question, submitted_by: str | None) -> None:
    """Answers are counted as approvals only where they can be told from rejections."""
    is_yes_or_no = isinstance(asked.schema, dict) and asked.schema.get("type") == "boolean"
    if asked.required > 1 and asked.proposal is UNSET and not is_yes_or_no:
        expected = "a proposal, or schema={'type': 'boolean'}, when several people have to approve"
        raise ValueError(f"ctx.human(required={asked.required}): expected {expected}")
    excluded = [] if asked.self_approval or submitted_by is None else [submitted_by]
    approvers = known_approvers(asked.assignees, excluded)
    if approvers is not None and approvers < asked.required:
        is_excluded = submitted_by in excluded and submitted_by in asked.assignees
        others = " other than the submitter of the run" if is_excluded else ""
        why = f"required={asked.required}" + (", self_approval=False" if is_excluded else "")
        expected = f"at least {asked.required} assignees{others}, or a group, or none"
        raise _wrong("assignees", asked.assignees, f"{expected}, since {why}")


def _json_schema(schema: Any) -> dict[str, Any] | bool | None:
    if schema is None or isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        try:
            schema = schema_of_type(schema)
        except TypeError:
            raise _wrong("schema", schema, EXPECTED_SCHEMA) from None
    from pyoco_server.json_schemas.schema_validation import check_schema  # noqa: PLC0415 - most executors never need it

    frozen: dict[str, Any] = json_value(schema, call="ctx.human(", argument="schema")
    try:
        check_schema(frozen)
    except ValueError as error:
        raise ValueError(f"ctx.human(schema=...): {error}") from None
    return frozen


def check_size(asked: Question, *, call: str = "ctx.human()") -> None:
    """ValueError if it is larger than a wait may be, or cannot be encoded."""
    try:
        size = len(encode(asked))
    except UnicodeEncodeError as error:
        raise _surrogate_error(asked, error, call.removesuffix(")")) from None
    if size > MAX_QUESTION_BYTES:
        parts = {name: getattr(asked, name) for name in ("schema", "proposal", "default")}
        sizes = ", ".join(f"{name} {len(encode(part))}" for name, part in parts.items() if part is not UNSET)
        expected = f"at most {MAX_QUESTION_BYTES} bytes in all; ask with a reference to large data"
        raise ValueError(f"{call}: the question has {size} bytes in JSON ({sizes}): expected {expected}")


def _surrogate_error(asked: Question, error: UnicodeEncodeError, call: str) -> ValueError:
    """A Python string may contain one, from a file name or a cut text; UTF-8 may not."""
    half = error.object[error.start]
    named = ("message", "name", "assignees", "schema", "proposal", "default")
    fields = [f"{name}=..." for name in named if _has(half, getattr(asked, name))]
    where = f"{call}{fields[0]})" if fields else f"{call}) in task {asked.task!a}"
    return ValueError(
        f"{where}: it has {half!a}, a surrogate, which is half of a character: "
        "expected a text that can be encoded as UTF-8"
    )


def _has(half: str, value: Any) -> bool:
    return value is not UNSET and half in json.dumps(value, ensure_ascii=False)


def _check_values(asked: Question) -> None:
    """The proposal and the default must match the schema."""
    if asked.schema is None:
        return
    from pyoco_server.json_schemas.schema_validation import problems_of  # noqa: PLC0415 - see above

    for field, value in (("proposal", asked.proposal), ("default", asked.default)):
        if value is not UNSET and (problems := problems_of(value, asked.schema)):
            listed = "; ".join(map(str, problems))
            raise ValueError(f"ctx.human({field}=...): it does not match the schema: {listed}")


def json_value(value: Any, *, call: str, argument: str) -> Any:
    """The value as JSON returns it; TypeError names the argument, after the beginning of the `call`."""
    try:
        text = json.dumps(value, allow_nan=False, default=plain_value)
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{call}{argument}=...): expected a JSON value: {error}") from None
    if is_json_nested_deeper(text.encode(), MAX_INPUT_NESTING):
        limit = f"at most {MAX_INPUT_NESTING} levels deep"
        raise TypeError(f"{call}{argument}=...): expected a JSON value, {limit}")
    return plain


def _wrong(field: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"ctx.human({field}={repr(value)[:80]}): expected {expected}")
