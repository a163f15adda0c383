"""What the endpoints of agent requests (`/api/v1`) take and return. Times are ISO 8601 with an offset."""

from typing import Annotated, Any, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.agent.request_file import Priority, RequestStatus
from pyoco_server.api.run_types import Text

TITLE_MAX_CHARS: Final = 200
TAGS_MAX: Final = 50
TAG_MAX_CHARS: Final = 100

_Title = Annotated[str, Meta(description=f"1 to {TITLE_MAX_CHARS} characters, one line.")]
_Priority = Annotated[str, Meta(description=f"One of {', '.join(Priority)}.")]
_Labels = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=TAG_MAX_CHARS)]], Meta(max_length=TAGS_MAX)
]
_Markdown = Annotated[str, Meta(description="Markdown.")]

Sort = Literal["priority_desc", "priority_asc", "updated_desc", "updated_asc", "created_desc", "created_asc"]
SORTS: Final = get_args(Sort)
DEFAULT_SORTS: Final[tuple[Sort, ...]] = ("priority_desc", "updated_desc")


class MarkdownText(Struct, kw_only=True, forbid_unknown_fields=True):
    text: _Markdown


class NewRequestBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new request; `requests/<id>.md` is created."""

    title: _Title
    priority: _Priority = Priority.P2
    tags: _Labels = []
    want: MarkdownText | None = None
    base: Annotated[str, Meta(description="Default: `git.baseBranchDefault` of the settings.")] | None = None
    branch: Annotated[str, Meta(description="Default: `git.branchPrefix` and the id.")] | None = None
    id: Annotated[str, Meta(description="Default: the day, and a slug of the title.")] | None = None


class RequestPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields to change. Plan and Report are written by the runner."""

    title: _Title | UnsetType = UNSET
    priority: _Priority | UnsetType = UNSET
    tags: _Labels | UnsetType = UNSET
    want: MarkdownText | UnsetType = UNSET


class EnqueueBody(Struct, kw_only=True, forbid_unknown_fields=True):
    mode: Literal["normal"] = "normal"


class ResumeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    answer: MarkdownText
    wait_id: (
        Annotated[str, Meta(description="`question.wait_id`: refused if the request asks another question.")]
        | None
    ) = None


class RequestListQuery(Struct, kw_only=True):
    status: Annotated[
        list[RequestStatus], Meta(description="Only of these statuses, separated by commas.")
    ] = []
    q: Annotated[Text | None, Meta(description="Only with this text in title or want, in any case.")] = None
    sort: Annotated[
        list[Sort],
        Meta(
            description="The order, and that of equal ones, separated by commas. By default P0 first, and of "
            f"these the last changed: `{','.join(DEFAULT_SORTS)}`."
        ),
    ] = []


class RequestPaths(Struct, kw_only=True):
    """Relative to the repository."""

    request_file: str
    run_dir: str | None


class QuestionView(Struct, kw_only=True):
    """The question that a request waits for."""

    wait_id: str
    text: str
    # Proposed answers; any other text is accepted as well.
    choices: list[str]
    deadline_at: str | None


class RequestView(Struct, kw_only=True):
    """One request, without its text."""

    id: str
    title: str
    priority: Priority
    status: RequestStatus
    base: str
    branch: str
    tags: list[str]
    created_at: str
    updated_at: str
    # Of the latest run: `001` for the first one.
    run_id: str | None
    phase: str | None
    attempt: int | None
    blocked_reason: str | None
    failure_reason: str | None
    pr_url: str | None
    last_commit: str | None
    paths: RequestPaths
    # Since when it waits for its turn; null: it is not in the queue.
    enqueued_at: str | None
    # Whether its run is being stopped.
    stopping: bool
    question: QuestionView | None
    # The latest run as `GET /runs/{run_id}` names it.
    pyoco_run_id: str | None
    # What a person has to correct in the file.
    problems: list[str]


class RequestSections(Struct, kw_only=True):
    """The parts of the text; null for one that is missing."""

    want: str | None
    plan: str | None
    report: str | None


class RequestContent(Struct, kw_only=True):
    raw_md: str
    sections: RequestSections


class RequestDetail(Struct, kw_only=True):
    request: RequestView
    content: RequestContent


class RequestResult(Struct, kw_only=True):
    request: RequestView


class RequestList(Struct, kw_only=True):
    items: list[RequestView]


class RequestRunStep(Struct, kw_only=True):
    """One step of the plan."""

    id: str
    title: str
    # waiting, running, done or failed.
    state: str
    commit: str | None
    # passed or failed; null: none ran.
    tests: str | None
    summary: str | None


class RequestRunView(Struct, kw_only=True):
    """One run of a request."""

    id: str
    request_id: str
    status: str
    phase: str | None
    started_at: str | None
    ended_at: str | None
    summary: str | None
    # The files of the run, relative to the repository: log_file, unit_log, e2e_log.
    artifacts: dict[str, str]
    # The names of all its files, for `GET .../artifacts/{name}`.
    files: list[str]
    # The step that is executed, such as S01.
    step: str | None
    steps: list[RequestRunStep]
    # `code`, `message` and `details` of a failed run, or of one with a question.
    error: dict[str, Any] | None
    pyoco_run_id: str | None


class RequestRunResult(Struct, kw_only=True):
    run: RequestRunView


class RequestRunList(Struct, kw_only=True):
    """The runs of a request, the newest first."""

    items: list[RequestRunView]


class DoctorCheck(Struct, kw_only=True, omit_defaults=True):
    name: str
    ok: bool
    version: str | None = None
    details: str | None = None
    # The command that corrects a failed check; nothing is corrected automatically.
    fix: str | None = None


class DoctorReport(Struct, kw_only=True):
    checks: list[DoctorCheck]


class AgentErrorBody(Struct, kw_only=True):
    # A fixed text, such as WORKTREE_DIRTY.
    code: str
    message: str
    # `hint`: what to do.
    details: dict[str, Any]


class AgentProblem(Struct, kw_only=True):
    """An error response of `/api/v1`."""

    error: AgentErrorBody


class LogEvent(Struct, kw_only=True, tag_field="type", tag="LOG"):
    """One line of the run's log."""

    ts: str
    line: str


class PhaseEvent(Struct, kw_only=True, tag_field="type", tag="PHASE"):
    ts: str
    phase: str


class StatusEvent(Struct, kw_only=True, tag_field="type", tag="STATUS"):
    ts: str
    status: RequestStatus
    blocked_reason: str | None
    failure_reason: str | None


class DoneEvent(Struct, kw_only=True, tag_field="type", tag="DONE"):
    """The last event: the run has ended."""

    ts: str
    status: RequestStatus
    pr_url: str | None
    last_commit: str | None
    failure_reason: str | None


RequestEvent = LogEvent | PhaseEvent | StatusEvent | DoneEvent
