"""`pyoco-server-admin api-key`: making, listing, revoking and rotating the keys of a gateway's callers."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text

from pyoco_server.auth.key_administration import KeyAdministration, KeyState, ListedKey, state_of
from pyoco_server.auth.scopes import Scope, parse_scopes
from pyoco_server.auth.tokens import KEY_ID_EXPECTED, Token, is_key_id
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.resources import ensure_api_keys
from pyoco_server.broker.stores.api_keys import ApiKeyRecord
from pyoco_server.cli.entry import examples, new_app
from pyoco_server.cli.options.client_options import OutputForm
from pyoco_server.cli.options.common_options import NatsUrl, comma_separated, sendable_text, settings_with
from pyoco_server.cli.options.moments import ago, local_time, span
from pyoco_server.cli.views.console import printable, results, say
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.cli.views.run_views import Output, chosen, pairs, show
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import TAG_PATTERN

T = TypeVar("T")

_CONNECT_SEC: Final = 5.0
_STATE_STYLES: Final = {KeyState.ACTIVE: "green", KeyState.EXPIRED: "dim", KeyState.REVOKED: "dim"}

app = new_app(
    no_args_is_help=True,
    help="Make the API keys that a gateway with PYOCO_HTTP_AUTH_MODE=api_key asks for, and take them back.",
    epilog=examples(
        "pyoco-server-admin api-key create --tenant acme --scopes submit,read",
        "pyoco-server-admin api-key list",
    ),
)


def _checked_tenant(text: str) -> str:
    if not re.fullmatch(TAG_PATTERN, text):
        raise typer.BadParameter(f"{text!r}: expected 1 to 64 letters, digits, '_' or '-'")
    return text


def _checked_key_id(text: str) -> str:
    if not is_key_id(text):
        # What was given may be a whole key, and is not repeated.
        raise typer.BadParameter(f"{KEY_ID_EXPECTED}: the part between the two '_' of a key")
    return text


def _checked_scopes(text: str) -> str:
    """A key without scopes may do everything: who names none has not asked for that."""
    if not comma_separated(text):
        raise typer.BadParameter(
            f"{text!r} names no scope; wanted some of {', '.join(Scope)}, or no --scopes for all of them"
        )
    return text


def _lasting(text: str) -> float:
    seconds = span(text)
    if seconds <= 0:
        raise typer.BadParameter(
            f"{text!r}: the key would never be good; wanted more than no time, as in 90d"
        )
    return seconds


Tenant = Annotated[
    str, typer.Option(help="Whose key it is: letters, digits, _ or -.", metavar="ID", parser=_checked_tenant)
]
KeyId = Annotated[
    str, typer.Option(help="The key, as `api-key list` names it.", metavar="ID", parser=_checked_key_id)
]


@app.command(
    epilog=examples(
        "pyoco-server-admin api-key create --tenant acme",
        "pyoco-server-admin api-key create --tenant acme --name ci --scopes submit,read --expires-in 90d",
    )
)
def create(
    *,
    tenant: Tenant,
    name: Annotated[
        str, typer.Option(help="What it is for, for people.", metavar="TEXT", parser=sendable_text)
    ] = "",
    scopes: Annotated[
        str | None,
        typer.Option(
            help=f"What it may be used for: {', '.join(Scope)} (default: all).",
            metavar="A,B",
            parser=_checked_scopes,
        ),
    ] = None,
    expires_in: Annotated[
        float | None,
        typer.Option(
            help="How long it is good, such as 12h or 90d (default: for ever).",
            metavar="TIME",
            parser=_lasting,
        ),
    ] = None,
    output: OutputForm = None,
    nats_url: NatsUrl = None,
) -> None:
    """Make a key and show it: this once, since only its hash is stored."""
    wanted = parse_scopes(comma_separated(scopes))
    expires_at = None if expires_in is None else time.time() + expires_in
    config = settings_with(nats_url=nats_url)
    record, token = _administer(
        config, lambda keys: keys.create(tenant, name=name, scopes=wanted, expires_at=expires_at)
    )
    _show_secret(record, token, output, config)


@app.command(
    "list",
    epilog=examples(
        "pyoco-server-admin api-key list", "pyoco-server-admin api-key list --tenant acme --output json"
    ),
)
def list_keys(
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Only those of this tenant.", metavar="ID", parser=_checked_tenant)
    ] = None,
    output: OutputForm = None,
    nats_url: NatsUrl = None,
) -> None:
    """List the keys, the newest first; never their secrets."""
    found = _administer(settings_with(nats_url=nats_url), lambda keys: keys.list(tenant))
    show([_listed(key) for key in found], output, _keys_view)


@app.command(epilog=examples("pyoco-server-admin api-key revoke --key-id 0123456789abcdef"))
def revoke(*, key_id: KeyId, output: OutputForm = None, nats_url: NatsUrl = None) -> None:
    """Take a key back for good: every gateway refuses it within a second."""
    record = _administer(settings_with(nats_url=nats_url), lambda keys: keys.revoke(key_id))
    show(_view(record), output, _key_view)


@app.command(
    epilog=examples(
        "pyoco-server-admin api-key rotate --key-id 0123456789abcdef --overlap 24h",
    )
)
def rotate(
    *,
    key_id: KeyId,
    overlap: Annotated[
        float | None,
        typer.Option(
            help="For how long the old secret stays good, such as 24h (default: not at all).",
            metavar="TIME",
            parser=span,
        ),
    ] = None,
    output: OutputForm = None,
    nats_url: NatsUrl = None,
) -> None:
    """Give a key a new secret, and show it: this once. Its id, tenant and scopes stay."""
    config = settings_with(nats_url=nats_url)
    record, token = _administer(config, lambda keys: keys.rotate(key_id, overlap_sec=overlap or 0.0))
    _show_secret(record, token, output, config)


def _administer(config: NatsBackendConfig, work: Callable[[KeyAdministration], Awaitable[T]]) -> T:
    async def connected() -> T:
        connection = Connection(config, name="pyoco-server-admin")
        connection.add_hook(lambda: ensure_api_keys(connection))
        await connection.start()
        try:
            await connection.wait_ready(_CONNECT_SEC)
            return await work(KeyAdministration(connection))
        finally:
            await connection.close()

    return asyncio.run(connected())


def _view(record: ApiKeyRecord) -> dict[str, Any]:
    return {
        "key_id": record.key_id,
        "tenant_id": record.tenant_id,
        "name": record.name,
        "scopes": list(record.scopes),
        "state": state_of(record),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "peppered": record.peppered,
    }


def _listed(key: ListedKey) -> dict[str, Any]:
    return {**_view(key.record), "last_used_at": key.last_used_at}


def _show_secret(
    record: ApiKeyRecord, token: Token, output: Output | None, config: NatsBackendConfig
) -> None:
    if chosen(output) is Output.JSON:
        show({"api_key": token.text(), **_view(record)}, output, _key_view)
    else:
        show(_view(record), output, _key_view)
        # Written as it is: a table would fold it, and it is there to be copied.
        results().file.write(f"\n{token.text()}\n")
        results().file.flush()
    say("This is the only time that the key is shown. Keep it like a password.")
    if not config.auth_pepper:
        say("PYOCO_AUTH_PEPPER is not set here; the gateways refuse the key if it is set there.")


def _key_view(key: dict[str, Any]) -> RenderableType:
    rows = [
        ("key_id", key["key_id"]),
        ("tenant_id", printable(key["tenant_id"])),
        ("name", printable(key["name"])),
        ("scopes", _scopes(key)),
        ("state", _state(key)),
        ("created", local_time(key["created_at"])),
        ("expires", _expires(key)),
        ("revoked", "" if key["revoked_at"] is None else local_time(key["revoked_at"])),
    ]
    return pairs((name, value) for name, value in rows if value)


def _scopes(key: dict[str, Any]) -> str:
    return printable(", ".join(key["scopes"])) or "(all)"


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
    "Made": lambda key: ago(key["created_at"]),
    "Used": lambda key: ago(key["last_used_at"]) or "never",
    "Expires": _expires,
}


def _keys_view(keys: Sequence[dict[str, Any]]) -> RenderableType:
    return list_view(keys, _COLUMNS, only_wide={"Scopes", "Expires"})
