"""Calls about dead letters."""

from __future__ import annotations

from typing import Any, Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.filter_params import LetterFilter
from pyoco_server.http_client.response_types import DeletedLetter, Letter, LetterPage, ReplayedLetter


def list_dlq(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[LetterFilter]
) -> Request[LetterPage]:
    """A page of the dead letters, the newest first; it may be empty although more follow."""
    return call(api.LIST_LETTERS, given(limit=limit, cursor=cursor) | letter_query(selected))


def iter_dlq(page_size: int = 200, **selected: Unpack[LetterFilter]) -> Pages[Letter]:
    """Every dead letter that matches, page after page."""
    return Pages(page=lambda cursor: list_dlq(page_size, cursor, **selected))


def get_dlq(seq: int) -> Request[Letter]:
    """One dead letter."""
    return call(api.GET_LETTER, seq=seq)


def replay_dlq(
    seq: int, *, mode: str | None = None, delete: bool = False, idempotency_key: str | None = None
) -> Request[ReplayedLetter]:
    """Replay a dead letter: rerun its run; `delete` removes the letter then, and `deleted` says so.

    An `idempotency_key` is as in `submit_run`.
    """
    body = given(mode=mode, delete=delete or None)
    return call(api.REPLAY_LETTER, body=body, key=idempotency_key, seq=seq)


def delete_dlq(seq: int) -> Request[DeletedLetter]:
    """Remove a dead letter; its run stays."""
    return call(api.DELETE_LETTER, seq=seq)


def letter_query(letter_filter: LetterFilter) -> dict[str, Any]:
    reasons = ",".join(letter_filter.get("reason", ()))
    seqs = ",".join(map(str, letter_filter.get("seq", ())))
    return given(**{**letter_filter, "reason": reasons or None, "seq": seqs or None})
