"""Dead letters: `GET /dlq`, and `GET`, `DELETE` and replay of one."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.broker.stores.dead_letters import StoredLetter
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.errors import FieldProblem, InvalidListQuery, InvalidRequest
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, keyed_by_header
from pyoco_server.http_api.requests.query_records import BadQuery, query_record
from pyoco_server.http_api.routes.rerun_routes import RerunAccepted
from pyoco_server.records.models import TAG_WANTED, DeadLetter, RerunMode, RunId, Tag
from pyoco_server.records.operation_models import LAST_SEQUENCE
from pyoco_server.runs.bulk.dead_letter_reading import LetterFilter, find_letter, letter_page
from pyoco_server.runs.bulk.dead_letter_replay import remove_letter_of, replay_job
from pyoco_server.runs.lifecycle.tenancy import Caller

router = APIRouter()

_WANTED = {
    "reason": "wanted one or more reasons, separated by commas, such as execution_error,timeout",
    "tag": TAG_WANTED,
    "flow": "wanted the name of a flow, 1 to 200 characters",
    "run_id": "wanted a run id: a lower-case UUID",
    "worker": "wanted a worker id, 1 to 128 characters",
    "since": "wanted a time in unix seconds, such as 1760000000.5",
    "until": "wanted a time in unix seconds, such as 1760000000.5",
    "q": "wanted 1 to 200 characters",
}
_WANTED_OF_PAGE = {
    **_WANTED,
    "limit": "wanted a whole number from 1 to 200",
    "cursor": "wanted the next_cursor of an earlier page",
}

_Moment = Annotated[float, Meta(ge=0, le=1e12)]
# One that is empty would stand for every letter, which nobody means who says so.
_Reasons = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]+( *, *[A-Za-z0-9_-]+)*$(?!\n)",
        max_length=500,
        description="Any of these words, separated by commas.",
    ),
]


class LetterQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The filters of dead letters."""

    reason: _Reasons | None = None
    tag: Tag | None = None
    flow: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    run_id: RunId | None = None
    worker: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    since: _Moment | None = None
    until: _Moment | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None

    def filter(self, caller: Caller) -> LetterFilter:
        """What the query asks for, of what the caller may know of."""
        reasons = frozenset() if self.reason is None else frozenset(map(str.strip, self.reason.split(",")))
        return LetterFilter(
            tenant=caller.confined_to,
            reasons=reasons,
            tag=self.tag,
            flow=self.flow,
            run_id=self.run_id,
            worker=self.worker,
            since=self.since,
            until=self.until,
            q=self.q,
        )


class LetterPageQuery(LetterQuery, kw_only=True, forbid_unknown_fields=True):
    """The filters, and which page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[int, Meta(ge=1, le=LAST_SEQUENCE, description="From `next_cursor`.")] | None = None


class LetterView(Struct, kw_only=True):
    """A dead letter as it is answered."""

    seq: int
    timestamp: float
    reason: str
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None
    tenant_id: str | None
    # Whether it names a run that could be repeated.
    replayable: bool


class LettersView(Struct, kw_only=True):
    """A page of dead letters, newest first."""

    items: list[LetterView]
    next_cursor: str | None


class LetterDeleted(Struct, kw_only=True):
    """The dead letter is gone."""

    seq: int
    deleted: bool = True


class ReplayRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where the run is repeated, and whether the letter is removed then."""

    mode: RerunMode = RerunMode.START
    delete: bool = False


class ReplayAccepted(RerunAccepted, kw_only=True):
    """The new run is stored and queued."""

    seq: int
    # Whether the letter was removed; false also where that was asked for and NATS did not do it.
    deleted: bool


@router.get("/dlq", response_class=Response)
async def list_letters(request: Request) -> Response:
    """The dead letters that match, newest first."""
    try:
        query = query_record(request, LetterPageQuery, _WANTED_OF_PAGE)
    except BadQuery as bad:
        raise InvalidListQuery(problems=[bad.problem]) from None
    letters, wanted = gateway_of(request).dead_letters, query.filter(caller_of(request))
    page = await letter_page(letters, wanted, before=query.cursor, limit=query.limit)
    cursor = None if page.before is None else str(page.before)
    return _json(LettersView(items=[_view(each) for each in page.letters], next_cursor=cursor))


@router.get("/dlq/{seq}", response_class=Response)
async def get_letter(request: Request, seq: str) -> Response:
    """One dead letter."""
    return _json(_view(await _find(request, seq)))


@router.delete("/dlq/{seq}", response_class=Response)
async def delete_letter(request: Request, seq: str) -> Response:
    """Remove one dead letter; its run stays as it is."""
    stored = await _find(request, seq)
    await gateway_of(request).dead_letters.remove(stored.seq)
    return _json(LetterDeleted(seq=stored.seq))


@router.post("/dlq/{seq}/replay", response_class=Response)
async def replay_letter(request: Request, seq: str) -> Response:
    """Repeat the run of a dead letter, as a new run."""
    gateway = gateway_of(request)
    cure = "a replay takes a mode, and whether to delete the letter"
    wish = await optional_record(request, ReplayRequest, field="mode", cure=cure)
    check_mode(wish.mode)
    caller = caller_of(request)
    keyed = keyed_by_header(request, caller, "dlq-replay", seq, wish.mode, wish.delete)
    earlier = None if keyed is None else await gateway.runs.submitter.submitted(keyed)
    if earlier is not None and earlier.origin_run_id is not None:
        # Before the letter is looked for: the first request may have removed it.
        return await _replay_answer(
            gateway, wish, int(seq), earlier.run_id, earlier.origin_run_id, again=True
        )
    stored = await _find(request, seq)
    job = await replay_job(gateway.runs.store, Journal(gateway.connection), stored, caller, mode=wish.mode)
    run_id = await gateway.runs.submitter.submit(job, request=keyed)
    assert job.origin_run_id is not None
    again = run_id != job.run_id
    return await _replay_answer(gateway, wish, stored.seq, run_id, job.origin_run_id, again=again)


async def _replay_answer(
    gateway: Gateway, wish: ReplayRequest, seq: int, run_id: str, origin_run_id: str, *, again: bool
) -> Response:
    """The new run is accepted, whatever becomes of the letter."""
    deleted = wish.delete and await remove_letter_of(gateway.dead_letters, seq, origin_run_id)
    accepted = ReplayAccepted(run_id=run_id, origin_run_id=origin_run_id, seq=seq, deleted=deleted)
    return _json(accepted, REPLAYED if again else None)


def letter_filter_of(request: Request) -> LetterFilter:
    """The filters of a query that has nothing else; InvalidListQuery names what is wrong."""
    try:
        return query_record(request, LetterQuery, _WANTED).filter(caller_of(request))
    except BadQuery as bad:
        raise InvalidListQuery(problems=[bad.problem]) from None


def check_mode(mode: RerunMode) -> None:
    """Tasks have their names in one flow: a rerun from a task is for one run."""
    if mode is RerunMode.TASK:
        problem = FieldProblem("mode", "wanted start or failed; use POST /runs/{run_id}/rerun for a task")
        raise InvalidRequest(problems=[problem])


async def _find(request: Request, seq: str) -> StoredLetter:
    return await find_letter(gateway_of(request).dead_letters, seq, caller_of(request))


def _view(stored: StoredLetter) -> LetterView:
    letter: DeadLetter = stored.letter
    return LetterView(
        seq=stored.seq,
        timestamp=letter.timestamp,
        reason=letter.reason,
        error=letter.error,
        run_id=letter.run_id,
        flow_name=letter.flow_name,
        tag=letter.tag,
        tags=letter.tags,
        worker_id=letter.worker_id,
        num_delivered=letter.num_delivered,
        subject=letter.subject,
        tenant_id=letter.tenant_id,
        replayable=letter.run_id is not None,
    )


def _json(body: Struct, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), headers=headers, media_type="application/json")
