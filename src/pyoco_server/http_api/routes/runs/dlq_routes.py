"""Dead letters: list them; read, delete and replay one."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import dlq_types
from pyoco_server.api.endpoints.runs.dlq_endpoints import (
    DELETE_LETTER,
    GET_LETTER,
    LIST_LETTERS,
    REPLAY_LETTER,
)
from pyoco_server.broker.stores.runs.dead_letters import StoredLetter
from pyoco_server.errors import FieldProblem, IndexNotReady, InvalidListQuery, InvalidRequest
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, keyed_by_header
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.bulk_models import LetterState
from pyoco_server.records.runs.run_models import RerunMode
from pyoco_server.records.value_types import TAG_EXPECTED
from pyoco_server.runs.bulk.letter_operations import (
    LetterFilter,
    find_letter,
    letter_page,
    remove_letter_of,
    replay_job,
    reruns_of,
)
from pyoco_server.runs.index.rerun_outcomes import Rerun
from pyoco_server.runs.lifecycle.tenancy import Caller

# What a parameter may be, for the error message.
_EXPECTED = {
    "reason": "expected one or more reasons, separated by commas, such as execution_error,timeout",
    "tag": TAG_EXPECTED,
    "flow": "expected the name of a flow, 1 to 200 characters",
    "run_id": "expected a run id: a lower-case UUID",
    "worker": "expected a worker id, 1 to 128 characters",
    "since": "expected a time in unix seconds, such as 1760000000.5",
    "until": "expected a time in unix seconds, such as 1760000000.5",
    "q": "expected 1 to 200 characters",
    "seq": "expected up to 500 numbers of letters, separated by commas",
    "state": "expected open or closed",
}
_EXPECTED_OF_PAGE = {
    **_EXPECTED,
    "limit": "expected a whole number from 1 to 200",
    "cursor": "expected the next_cursor of an earlier page",
}


@handles(LIST_LETTERS)
async def list_letters(request: Request) -> Response:
    query = query_record(request, dlq_types.LetterPageQuery, _EXPECTED_OF_PAGE, InvalidListQuery)
    gateway = gateway_of(request)
    page = await letter_page(
        gateway.dead_letters,
        _filter(query, caller_of(request)),
        before=query.cursor,
        limit=query.limit,
        reruns=gateway.listing.lists.decisive_reruns,
    )
    cursor = None if page.before is None else str(page.before)
    items = [_view(each, page.reruns) for each in page.letters]
    return json_response(dlq_types.LettersView(items=items, next_cursor=cursor))


@handles(GET_LETTER)
async def get_letter(request: Request, seq: str) -> Response:
    stored = await _find(request, seq)
    known: dict[str, Rerun] = {}
    with suppress(IndexNotReady):
        known = await reruns_of([stored], gateway_of(request).listing.lists.decisive_reruns)
    return json_response(_view(stored, known))


@handles(DELETE_LETTER)
async def delete_letter(request: Request, seq: str) -> Response:
    stored = await _find(request, seq)
    await gateway_of(request).dead_letters.remove(stored.seq)
    return json_response(dlq_types.LetterDeleted(seq=stored.seq))


@handles(REPLAY_LETTER)
async def replay_letter(request: Request, seq: str) -> Response:
    gateway = gateway_of(request)
    cure = "a replay takes a mode, and whether to delete the letter"
    body = await optional_record(request, dlq_types.ReplayRequest, field="mode", cure=cure)
    check_mode(body.mode)
    caller = caller_of(request)
    keyed = keyed_by_header(request, caller, "dlq-replay", seq, body.mode, body.delete)
    earlier = None if keyed is None else await gateway.runs.submitter.earlier_submission(keyed)
    if earlier is not None and earlier.origin_run_id is not None:
        # Before the letter is read: the first request may have removed it.
        return await _accepted(gateway, body, int(seq), earlier.run_id, earlier.origin_run_id, replayed=True)
    stored = await _find(request, seq)
    job = await replay_job(gateway.connection, stored, caller, mode=body.mode)
    run_id = await gateway.runs.submitter.submit(job, request=keyed)
    assert job.origin_run_id is not None
    replayed = run_id != job.run_id
    return await _accepted(gateway, body, stored.seq, run_id, job.origin_run_id, replayed=replayed)


async def _accepted(
    gateway: Gateway,
    body: dlq_types.ReplayRequest,
    seq: int,
    run_id: str,
    origin_run_id: str,
    *,
    replayed: bool,
) -> Response:
    """The new run is accepted, whether or not the letter can be removed."""
    deleted = body.delete and await remove_letter_of(gateway.dead_letters, seq, origin_run_id)
    accepted = dlq_types.ReplayAccepted(run_id=run_id, origin_run_id=origin_run_id, seq=seq, deleted=deleted)
    return json_response(accepted, REPLAYED if replayed else None)


def letter_filter_of(request: Request) -> LetterFilter:
    """The filters of a query that has nothing else; InvalidListQuery names what is wrong."""
    query = query_record(request, dlq_types.LetterQuery, _EXPECTED, InvalidListQuery)
    return _filter(query, caller_of(request))


def _filter(query: dlq_types.LetterQuery, caller: Caller) -> LetterFilter:
    """What the query selects, of what the caller may see."""
    reasons = frozenset() if query.reason is None else frozenset(map(str.strip, query.reason.split(",")))
    return LetterFilter(
        tenant=caller.confined_to,
        reasons=reasons,
        tag=query.tag,
        flow=query.flow,
        run_id=query.run_id,
        worker=query.worker,
        since=query.since,
        until=query.until,
        q=query.q,
        seqs=frozenset() if query.seq is None else frozenset(map(int, query.seq.split(","))),
        closed=None if query.state is None else LetterState(query.state) is LetterState.CLOSED,
    )


def check_mode(mode: RerunMode) -> None:
    """A task name belongs to one flow: a rerun from a task is for one run."""
    if mode is RerunMode.TASK:
        problem = FieldProblem("mode", "expected start or failed; use POST /runs/{run_id}/rerun for a task")
        raise InvalidRequest(problems=[problem])


async def _find(request: Request, seq: str) -> StoredLetter:
    return await find_letter(gateway_of(request).dead_letters, seq, caller_of(request))


def _view(stored: StoredLetter, reruns: Mapping[str, Rerun]) -> dlq_types.LetterView:
    letter = stored.letter
    rerun = reruns.get(letter.run_id or "")
    return dlq_types.LetterView(
        seq=stored.seq,
        replayable=letter.run_id is not None,
        rerun=None if rerun is None else dlq_types.LetterRerun(run_id=rerun.run_id, status=rerun.status),
        closed=rerun is not None and rerun.completed,
        **structs.asdict(letter),
    )
