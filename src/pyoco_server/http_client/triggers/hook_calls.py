"""Calls about hooks and their deliveries: methods of both clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, call, given
from pyoco_server.http_client.filter_params import HookFilter
from pyoco_server.http_client.response_types import (
    Delivery,
    DeliveryItem,
    DeliveryPage,
    Hook,
    HookDeleted,
    HookPage,
    HookWithSecret,
    Redelivered,
    TestedDelivery,
)


def create_hook(hook_id: str, kind: str, flow_name: str, **fields: Any) -> Request[HookWithSecret]:
    """Create a hook; the answer has its `secret`, this once.

    The fields are those of `POST /hooks`: `secret`, `signature`, `params`, `tag`, `tags`, `timeout_sec`,
    `workflow_yaml`, `map`, `idempotency`, `only_if`, `overlap` and `note`.
    """
    return call(api.CREATE_HOOK, body={"hook_id": hook_id, "kind": kind, "flow_name": flow_name, **fields})


def get_hook(hook_id: str, *, tenant: str | None = None) -> Request[Hook]:
    """One hook, without its secrets.

    A `tenant` is for operators, here and in the other calls: whose hook it is.
    """
    return call(api.GET_HOOK, given(tenant=tenant), hook_id=hook_id)


def list_hooks(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[HookFilter]
) -> Request[HookPage]:
    """A page of the hooks that match, in the order of their ids."""
    return call(api.LIST_HOOKS, given(limit=limit, cursor=cursor, **selected))


def iter_hooks(page_size: int = 200, **selected: Unpack[HookFilter]) -> Pages[Hook]:
    """Every hook that matches, page after page."""
    return Pages(page=lambda cursor: list_hooks(page_size, cursor, **selected))


def update_hook(
    hook_id: str, *, revision: int | None = None, tenant: str | None = None, **fields: Any
) -> Request[Hook]:
    """Change the given fields; the others stay, and so do the kind and the secret.

    With the `revision` that was read, a change by somebody else in between is a 409 and nothing is changed.
    """
    body = {**given(revision=revision), **fields}
    return call(api.PATCH_HOOK, given(tenant=tenant), body, hook_id=hook_id)


def delete_hook(
    hook_id: str, *, revision: int | None = None, tenant: str | None = None
) -> Request[HookDeleted]:
    """Delete a hook with its deliveries; its runs stay."""
    return call(api.DELETE_HOOK, given(revision=revision, tenant=tenant), hook_id=hook_id)


def rotate_hook(
    hook_id: str, *, secret: str | None = None, keep_sec: float | None = None, tenant: str | None = None
) -> Request[HookWithSecret]:
    """Give a hook a new secret; the answer has it, this once.

    The old one stays valid for `keep_sec`; without it, until the rotation is finished.
    """
    body = given(secret=secret, keep_sec=keep_sec)
    return call(api.ROTATE_HOOK, given(tenant=tenant), body, hook_id=hook_id)


def finish_hook_rotation(hook_id: str, *, tenant: str | None = None) -> Request[Hook]:
    """End the old secret: only the new one is valid from now on."""
    return call(api.FINISH_ROTATION, given(tenant=tenant), hook_id=hook_id)


def preview_hook(
    hook_id: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    tenant: str | None = None,
) -> Request[TestedDelivery]:
    """What a delivery would start, with its params. Nothing is started or stored."""
    sample = {"body": body, **given(headers=headers, query=query)}
    return call(api.TEST_HOOK, given(tenant=tenant), sample, hook_id=hook_id)


def list_deliveries(
    hook_id: str,
    limit: int | None = None,
    cursor: str | None = None,
    *,
    status: str | None = None,
    tenant: str | None = None,
) -> Request[DeliveryPage]:
    """A page of the kept deliveries of a hook, the newest first."""
    query = given(limit=limit, cursor=cursor, status=status, tenant=tenant)
    return call(api.LIST_DELIVERIES, query, hook_id=hook_id)


def iter_deliveries(
    hook_id: str, page_size: int = 200, *, status: str | None = None, tenant: str | None = None
) -> Pages[DeliveryItem]:
    """Every kept delivery of a hook, page after page."""
    return Pages(
        page=lambda cursor: list_deliveries(hook_id, page_size, cursor, status=status, tenant=tenant)
    )


def get_delivery(hook_id: str, delivery_id: int, *, tenant: str | None = None) -> Request[Delivery]:
    """One delivery: headers and body as they came, the answer, and the params of its run."""
    return call(api.GET_DELIVERY, given(tenant=tenant), hook_id=hook_id, delivery_id=delivery_id)


def redeliver(
    hook_id: str,
    delivery_id: int,
    *,
    new_run: bool = False,
    tenant: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Redelivered]:
    """Process a kept delivery again, with the hook as it is now.

    A delivery that has started a run is answered as a duplicate, unless `new_run` asks for another run.
    """
    return call(
        api.REDELIVER,
        given(tenant=tenant),
        {"new_run": new_run},
        key=idempotency_key,
        submits=True,
        hook_id=hook_id,
        delivery_id=delivery_id,
    )
