"""Answering waits: `POST /waits/{wait_id}/respond`, `POST /resume`, and `POST /runs/{run_id}/retry`.

Errors have a word for programs here, all of them (wait_words.py): `error` says it.
"""

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.principal import principal_of
from pyoco_server.http_api.requests.bodies import limited_body, optional_record
from pyoco_server.http_api.requests.invalid_input import invalid_body
from pyoco_server.http_api.routes.submit_routes import MAX_NESTING
from pyoco_server.human.answers.answering import Answer
from pyoco_server.human.reopening import retry_run
from pyoco_server.records.models import RunId
from pyoco_server.records.wait_models import Actor, Decision, WaitId
from pyoco_server.runs.flow_yaml.nesting import check_nesting

router = APIRouter()

_USER_AGENT_CHARS: Final = 300

DecisionId = Annotated[
    str, Meta(min_length=1, max_length=200, description="The same answer under the same id is one answer.")
]
T = TypeVar("T", bound=Struct)


class RespondRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer. To a proposal it is a `decision`; to anything else a `payload`."""

    payload: Any = UNSET
    decision: Decision | None = None
    digest: Annotated[str, Meta(max_length=200)] | None = None
    note: Annotated[str, Meta(max_length=10_000)] | None = None
    decision_id: DecisionId | None = None


class Responded(Struct, kw_only=True):
    """The answer counts."""

    wait_id: WaitId
    run_id: RunId
    decided_at: float
    decision: Decision | None
    decision_id: str | None
    # Whether it had been given before, under the same `decision_id`.
    repeated: bool
    success: Literal[True] = True


class ResumeRequest(Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """An answer to the only open wait of a run."""

    run_id: str
    payload: Any
    decision_id: DecisionId | None = None


class Resumed(Struct, kw_only=True, rename="camel"):
    """The answer counts, and the run goes on."""

    run_id: RunId
    success: Literal[True] = True


class RetryRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """There is nothing to say."""


@router.post("/waits/{wait_id}/respond", response_class=Response)
async def respond(request: Request, wait_id: str) -> Response:
    """Answer a wait. Of several answers one counts; who comes later is told who was first."""
    wish = await _read(request, RespondRequest)
    _check_depth(wish.payload)
    answer = Answer(
        payload=wish.payload,
        decision=wish.decision,
        digest=wish.digest,
        note=wish.note,
        decision_id=wish.decision_id,
    )
    answers = gateway_of(request).waits.answers
    receipt = await answers.respond(wait_id, answer, caller_of(request), _actor_of(request))
    return _json(
        Responded(
            wait_id=receipt.wait_id,
            run_id=receipt.run_id,
            decided_at=receipt.decided_at,
            decision=receipt.decision,
            decision_id=receipt.decision_id,
            repeated=receipt.repeated,
        )
    )


@router.post("/resume", response_class=Response)
async def resume(request: Request) -> Response:
    """Answer the only open wait of a run; with several, answer one of them by its own id."""
    wish = await _read(request, ResumeRequest)
    _check_depth(wish.payload)
    receipt = await gateway_of(request).waits.answers.resume(
        wish.run_id, wish.payload, caller_of(request), _actor_of(request), decision_id=wish.decision_id
    )
    return _json(Resumed(run_id=receipt.run_id))


@router.post("/runs/{run_id}/retry", response_class=Response)
async def retry(request: Request, run_id: str) -> Response:
    """Ask again what nobody has answered in time; what the run has done before is not done again."""
    await optional_record(request, RetryRequest, field="", cure="a retry takes nothing")
    connection = gateway_of(request).connection
    snapshot = await retry_run(connection, run_id, caller_of(request), _actor_of(request))
    snapshot.task_records = UNSET
    return _json(snapshot)


async def _read(request: Request, kind: type[T]) -> T:
    body = await limited_body(
        request,
        gateway_of(request).config.wait_answer_max_bytes,
        field="payload",
        cure="answer with a reference to large data, or raise PYOCO_WAIT_ANSWER_MAX_BYTES",
    )
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_body(error, body) from None


def _check_depth(payload: Any) -> None:
    if not check_nesting(payload, MAX_NESTING):
        raise InvalidRequest(problems=[FieldProblem("payload", f"nested more than {MAX_NESTING} deep")])


def _actor_of(request: Request) -> Actor:
    """Whom the audit names."""
    principal = principal_of(request)
    agent = request.headers.get("user-agent")
    return Actor(
        tenant_id=None if principal is None else principal.tenant_id,
        api_key_id=None if principal is None else principal.key_id,
        name=None if principal is None else principal.name,
        ip=None if request.client is None else request.client.host,
        user_agent=None if agent is None else agent[:_USER_AGENT_CHARS],
    )


def _json(body: Struct) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
