"""Calls about agent requests: methods of both clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call, given
from pyoco_server.http_client.response_types import (
    DoctorReport,
    RequestDetail,
    RequestList,
    RequestResult,
    RequestRunList,
    RequestRunResult,
)


def list_requests(
    *, status: Sequence[str] = (), q: str | None = None, sort: str | None = None
) -> Request[RequestList]:
    """The requests of the repository that the gateway serves, P0 first by default.

    `sort` is one order, or several: "priority_desc,updated_desc".
    """
    return call(api.LIST_REQUESTS, given(status=",".join(status) or None, q=q, sort=sort))


def create_request(
    title: str,
    want: str = "",
    *,
    priority: str | None = None,
    tags: Sequence[str] = (),
    base: str | None = None,
    branch: str | None = None,
    request_id: str | None = None,
) -> Request[RequestResult]:
    """Write a new request; `enqueue_request` has it executed. `want` is Markdown."""
    fields = given(priority=priority, base=base, branch=branch, id=request_id)
    body = {"title": title, "tags": list(tags), "want": {"text": want}, **fields}
    return call(api.CREATE_REQUEST, body=body)


def get_request(request_id: str) -> Request[RequestDetail]:
    """One request with its text."""
    return call(api.GET_REQUEST, request_id=request_id)


def update_request(
    request_id: str,
    *,
    title: str | None = None,
    priority: str | None = None,
    tags: Sequence[str] | None = None,
    want: str | None = None,
) -> Request[RequestResult]:
    """Change the given fields; the want not while the request is running."""
    body: dict[str, Any] = given(title=title, priority=priority)
    if tags is not None:
        body["tags"] = list(tags)
    if want is not None:
        body["want"] = {"text": want}
    return call(api.PATCH_REQUEST, body=body, request_id=request_id)


def delete_request(request_id: str) -> Request[bool]:
    """Delete the file of a request that is queued, failed or done; the files of its runs stay."""
    return call(api.DELETE_REQUEST, read=lambda response: True, request_id=request_id)


def enqueue_request(request_id: str) -> Request[RequestResult]:
    """Have a request executed when it is its turn; repeating this changes nothing."""
    return call(api.ENQUEUE_REQUEST, request_id=request_id)


def stop_request(request_id: str) -> Request[RequestResult]:
    """Stop the run of a request, or take it out of the queue; its work is saved."""
    return call(api.STOP_REQUEST, request_id=request_id)


def resume_request(request_id: str, answer: str, *, wait_id: str | None = None) -> Request[RequestResult]:
    """Answer the question of a request, which continues then.

    With the `wait_id` of the question no other one is answered, and the call is repeated after a failure.
    """
    body = {"answer": {"text": answer}, **given(wait_id=wait_id)}
    return call(api.RESUME_REQUEST, body=body, repeatable=wait_id is not None, request_id=request_id)


def rerun_request(request_id: str) -> Request[RequestResult]:
    """Execute a failed or finished request again, on the same branch."""
    return call(api.RERUN_REQUEST, request_id=request_id)


def list_request_runs(request_id: str) -> Request[RequestRunList]:
    """The runs of a request, the newest first."""
    return call(api.LIST_REQUEST_RUNS, request_id=request_id)


def latest_request_run(request_id: str) -> Request[RequestRunResult]:
    """The latest run of a request; its `pyoco_run_id` is for `follow_logs` and `wait`."""
    return call(api.LATEST_REQUEST_RUN, request_id=request_id)


def request_artifact(request_id: str, run_id: str, name: str) -> Request[str]:
    """A file of a run, such as runner.log or plan.json."""
    return call(api.REQUEST_ARTIFACT, read=_text, request_id=request_id, run_number=run_id, name=name)


def raw_request(request_id: str) -> Request[str]:
    """The file of a request as it is."""
    return call(api.RAW_REQUEST, read=_text, request_id=request_id)


def doctor() -> Request[DoctorReport]:
    """Check what an agent needs on the gateway's machine; nothing is changed."""
    return call(api.DOCTOR)


def _text(response: httpx.Response) -> str:
    return response.content.decode("utf-8", "replace")
