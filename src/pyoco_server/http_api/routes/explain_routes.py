"""Why a run is where it is: `GET /runs/{run_id}/explain`."""

import time
from typing import Any

import msgspec
from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors.error_table import Lang
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.response_language import preferred_language
from pyoco_server.records.models import RunId, RunStatus
from pyoco_server.runs.explain.explain_rules import Finding
from pyoco_server.runs.explain.explain_texts import TEXTS
from pyoco_server.runs.explain.explain_words import in_words

router = APIRouter()


class ActionView(Struct, kw_only=True):
    """What a person can do: in words, as a command line, and as a request."""

    text: str
    command: str | None
    request: str | None


class NextView(Struct, kw_only=True):
    """What comes next."""

    by_itself: str
    actions: list[ActionView]


class FindingView(Struct, kw_only=True):
    """One thing that was found: a stable word, the same for people, and what it was found from."""

    code: str
    message: str
    evidence: dict[str, Any]
    next: NextView


class Explanation(Struct, kw_only=True):
    """Why the run is where it is; the first finding is the most important one."""

    run_id: RunId
    # None while NATS cannot be asked.
    status: RunStatus | None
    checked_at: float
    summary: str
    findings: list[FindingView]


@router.get("/runs/{run_id}/explain", response_class=Response)
async def explain(request: Request, run_id: str) -> Response:
    """Why the run waits, shows no progress, or ended; and what can be done about it."""
    language = preferred_language(request.headers.get("accept-language"))
    status, findings = await gateway_of(request).runs.explainer.explain(run_id, caller_of(request))
    views = [_view(finding, run_id, language) for finding in findings]
    answer = Explanation(
        run_id=run_id, status=status, checked_at=time.time(), summary=views[0].message, findings=views
    )
    headers = {"Content-Language": language, "Vary": "Accept-Language"}
    return Response(msgspec.json.encode(answer), headers=headers, media_type="application/json")


def _view(finding: Finding, run_id: str, language: Lang) -> FindingView:
    text = TEXTS[finding.code]
    words = {**in_words(finding.evidence, language), "run_id": run_id}
    actions = [
        ActionView(
            text=action.ja if language == "ja" else action.en,
            command=action.command and action.command.format_map(words),
            request=action.request and action.request.format_map(words),
        )
        for action in text.actions
    ]
    return FindingView(
        code=finding.code,
        message=text.message(words, language),
        evidence=finding.evidence,
        next=NextView(by_itself=text.by_itself(words, language), actions=actions),
    )
