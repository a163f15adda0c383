"""`pyoco-server-admin api-key`: create, list, revoke and rotate API keys."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text

from pyoco_server.audit.key_entries import key_entry
from pyoco_server.auth.key_administration import ApiKeyNotFound, KeyAdministration, KeyState, state_of
from pyoco_server.auth.scopes import Scope, parse_scopes
from pyoco_server.auth.tokens import KEY_ID_EXPECTED, Token, is_key_id
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.api_keys import ApiKeyRecord
from pyoco_server.broker.stores.monitoring.audit_entry_store import AuditEntryStore
from pyoco_server.broker.streams_and_buckets import ensure_api_keys
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.client_options import OutputOption
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import (
    NatsUrl,
    comma_separated,
    option,
    text_option,
)
from pyoco_server.cli.options.time_formats import ago, local_time, parse_duration
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import (
    OutputFormat,
    effective_format,
    pairs,
    print_note,
    printable,
    show,
    stdout_console,
)
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidCliArgument, NatsUnavailable, shortened
from pyoco_server.records.value_types import TAG_PATTERN

T = TypeVar("T")

_CONNECT_SEC: Final = 5.0
_STATE_STYLES: Final = {KeyState.ACTIVE: "green", KeyState.EXPIRED: "dim", KeyState.REVOKED: "dim"}


def _checked_tenant(text: str) -> str:
    if not re.fullmatch(TAG_PATTERN, text):
        raise typer.BadParameter(f"{text!r}: expected 1 to 64 letters, digits, '_' or '-'")
    return text


def _checked_key_id(text: str) -> str:
    if not is_key_id(text):
        # The text may be a whole key, and is not repeated.
        raise typer.BadParameter(f"{KEY_ID_EXPECTED}: the part between the two '_' of a key")
    return text


def _checked_scopes(text: str) -> str:
    """No scopes means all scopes, so that an empty list must be a mistake."""
    if not comma_separated(text):
        raise typer.BadParameter(
            f"{text!r} names no scope; expected some of {', '.join(Scope)}, or no --scopes for all of them"
        )
    return text


def _lifetime(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r}: the lifetime must be longer than 0, for example 90d")
    return seconds


Tenant = Annotated[str, option("Tenant of the key: letters, digits, _ or -.", "ID", parser=_checked_tenant)]
KeyId = Annotated[str, option("The key id shown by `api-key list`.", "ID", parser=_checked_key_id)]


@examples(
    "pyoco-server-admin api-key create --tenant acme",
    "pyoco-server-admin api-key create --tenant acme --name ci --scopes submit,read --expires-in 90d",
    "pyoco-server-admin api-key create --tenant acme --name ann --scopes answer --group finance",
)
def create(
    *,
    tenant: Tenant,
    name: Annotated[str, text_option("Description for people.", "TEXT")] = "",
    scopes: Annotated[
        str | None,
        option(f"Allowed scopes: {', '.join(Scope)} (default: all).", "A,B", parser=_checked_scopes),
    ] = None,
    group: Annotated[
        list[str] | None,
        option(
            "Group of the key, for assignees such as group:finance; repeatable.",
            "NAME",
            parser=_checked_tenant,
        ),
    ] = None,
    expires_in: Annotated[
        float | None,
        option("Lifetime, such as 12h or 90d (default: never expires).", "TIME", parser=_lifetime),
    ] = None,
    output: OutputOption = None,
    nats_url: NatsUrl = None,
) -> None:
    granted = parse_scopes(comma_separated(scopes))
    expires_at = None if expires_in is None else time.time() + expires_in
    config = settings_with(nats_url=nats_url)
    record, token = _administer(
        config,
        lambda keys: keys.create(
            tenant, name=name, scopes=granted, groups=group or (), expires_at=expires_at
        ),
        action="key.create",
        changed=lambda created: created[0],
    )
    _show_secret(record, token, output, config)


@examples(
    "pyoco-server-admin api-key list",
    "pyoco-server-admin api-key list --tenant acme --output json",
)
def list_keys(
    *,
    tenant: Annotated[str | None, option("Only keys of this tenant.", "ID", parser=_checked_tenant)] = None,
    output: OutputOption = None,
    nats_url: NatsUrl = None,
) -> None:
    found = _administer(settings_with(nats_url=nats_url), lambda keys: keys.list(tenant))
    listed = [{**_view(key.record), "last_used_at": key.last_used_at} for key in found]
    show(listed, output, _keys_view)


@examples("pyoco-server-admin api-key revoke --key-id 0123456789abcdef")
def revoke(*, key_id: KeyId, output: OutputOption = None, nats_url: NatsUrl = None) -> None:
    record = _administer(
        settings_with(nats_url=nats_url),
        lambda keys: keys.revoke(key_id),
        action="key.revoke",
        changed=lambda revoked: revoked,
    )
    show(_view(record), output, _key_view)


@examples("pyoco-server-admin api-key rotate --key-id 0123456789abcdef --overlap 24h")
def rotate(
    *,
    key_id: KeyId,
    overlap: Annotated[
        float | None,
        option(
            "How long the old secret stays valid, such as 24h (default: not at all).",
            "TIME",
            parser=parse_duration,
        ),
    ] = None,
    output: OutputOption = None,
    nats_url: NatsUrl = None,
) -> None:
    config = settings_with(nats_url=nats_url)
    record, token = _administer(
        config,
        lambda keys: keys.rotate(key_id, overlap_sec=overlap or 0.0),
        action="key.rotate",
        changed=lambda rotated: rotated[0],
    )
    _show_secret(record, token, output, config)


def _administer(
    config: NatsBackendConfig,
    work: Callable[[KeyAdministration], Awaitable[T]],
    *,
    action: str = "",
    changed: Callable[[T], ApiKeyRecord] | None = None,
) -> T:
    """The result of the work; of a key that it has `changed`, the audit log gets an entry."""

    async def connected() -> T:
        connection = Connection(config, name="pyoco-server-admin")
        connection.on_connect(lambda: ensure_api_keys(connection))
        await connection.start()
        try:
            await connection.wait_ready(_CONNECT_SEC)
            result = await work(KeyAdministration(connection))
            if changed is not None:
                await _write_entry(connection, action, changed(result))
            return result
        finally:
            await connection.close()

    try:
        return asyncio.run(connected())
    except ApiKeyNotFound as unknown:
        message = f"there is no such API key; {KEY_ID_EXPECTED}"
        raise InvalidCliArgument(
            problems=[FieldProblem("--key-id", message, shortened(unknown.key_id))]
        ) from None


async def _write_entry(connection: Connection, action: str, record: ApiKeyRecord) -> None:
    """The change of the key stands, also when this fails."""
    try:
        await AuditEntryStore(connection).publish(key_entry(action, record))
    except NatsUnavailable as error:
        print_note(
            localized("The key was changed, but the audit log has no entry of it: {error}", error=error)
        )


def _view(record: ApiKeyRecord) -> dict[str, Any]:
    return {
        "key_id": record.key_id,
        "tenant_id": record.tenant_id,
        "name": record.name,
        "scopes": list(record.scopes),
        "groups": list(record.groups),
        "state": state_of(record),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "peppered": record.peppered,
    }


def _show_secret(
    record: ApiKeyRecord, token: Token, output: OutputFormat | None, config: NatsBackendConfig
) -> None:
    if effective_format(output) is OutputFormat.JSON:
        show({"api_key": token.text(), **_view(record)}, output, _key_view)
    else:
        show(_view(record), output, _key_view)
        # Not in the table, which would wrap it: it is there to be copied.
        stdout_console().file.write(f"\n{token.text()}\n")
        stdout_console().file.flush()
    print_note(localized("The key is shown only this once. Store it like a password."))
    if not config.auth_pepper:
        print_note(localized("PYOCO_AUTH_PEPPER is not set here; gateways that have it set reject the key."))


def _key_view(key: dict[str, Any]) -> RenderableType:
    rows = [
        ("key_id", key["key_id"]),
        ("tenant_id", printable(key["tenant_id"])),
        ("name", printable(key["name"])),
        ("scopes", _scopes(key)),
        ("groups", _groups(key)),
        ("state", _state(key)),
        ("created", local_time(key["created_at"])),
        ("expires", _expires(key)),
        ("revoked", "" if key["revoked_at"] is None else local_time(key["revoked_at"])),
    ]
    return pairs((name, value) for name, value in rows if value)


def _scopes(key: dict[str, Any]) -> str:
    return printable(", ".join(key["scopes"])) or localized("(all)")


def _groups(key: dict[str, Any]) -> str:
    return printable(", ".join(key["groups"]))


def _state(key: dict[str, Any]) -> Text:
    return Text(key["state"], style=_STATE_STYLES[key["state"]])


def _expires(key: dict[str, Any]) -> str:
    return "" if key["expires_at"] is None else local_time(key["expires_at"])


_COLUMNS: Final[Columns] = {
    "Key": lambda key: key["key_id"],
    "Tenant": lambda key: printable(key["tenant_id"]),
    "State": _state,
    "Name": lambda key: printable(key["name"]),
    "Scopes": _scopes,
    "Groups": _groups,
    "Created": lambda key: ago(key["created_at"]),
    "Last used": lambda key: ago(key["last_used_at"]) or localized("never"),
    "Expires": _expires,
}


def _keys_view(keys: Sequence[dict[str, Any]]) -> RenderableType:
    return list_view(keys, _COLUMNS, only_wide={"Scopes", "Groups", "Expires"})
