"""`pyoco-server-admin nats-config`: NATS accounts and users with the permissions each part needs."""

import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pyoco_server.broker.permissions import UserAccess, WorkerAccess, gateway_access, worker_access
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.command_settings import settings_with
from pyoco_server.cli.options.shared_options import comma_separated, option
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidCliArgument, shortened
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN

ACCOUNT: Final = "PYOCO"
GATEWAY: Final = "gateway"
ADMIN: Final = "admin"
DEFAULT_WORKERS: Final = "worker"

_PUBLIC_NKEY: Final = re.compile(r"U[A-Z2-7]{55}")
_BCRYPT: Final = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_PASSWORD_BYTES: Final = 24

Workers = Annotated[
    list[str] | None,
    option(
        "Worker group with its own user and account, and the tags it may serve "
        "(default: worker, which may serve all); repeatable.",
        "NAME[=TAG,TAG]",
        "--worker",
    ),
]
Nkeys = Annotated[
    list[str] | None, option("Public nkey of a user, instead of a password.", "USER=U...", "--nkey")
]
Hashes = Annotated[
    list[str] | None,
    option("bcrypt hash of a user's password, instead of a generated one.", "USER=HASH", "--password-hash"),
]
OutputFile = Annotated[
    Path | None, option("Write to this new file, readable only by you.", "FILE", dir_okay=False)
]


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    name: str
    tags: list[str]

    @property
    def account(self) -> str:
        return f"{ACCOUNT}_{self.name}"


@examples(
    "pyoco-server-admin nats-config --file pyoco-users.conf",
    "pyoco-server-admin nats-config --worker cpu=default --worker gpu=gpu,train",
    "pyoco-server-admin nats-config --nkey gateway=UA... --nkey worker=UB...",
)
def nats_config(
    *, worker: Workers = None, nkey: Nkeys = None, password_hash: Hashes = None, file: OutputFile = None
) -> None:
    groups = [_group(text) for text in worker or [DEFAULT_WORKERS]]
    names = [GATEWAY, ADMIN, *(group.name for group in groups)]
    if len(set(names)) != len(names):
        raise _invalid(
            "worker", f"expected each name once, and neither {GATEWAY} nor {ADMIN}", ", ".join(names)
        )
    given = {
        **_credentials(nkey, names, "nkey", _PUBLIC_NKEY, "a public nkey, U and 55 more characters"),
        **_credentials(password_hash, names, "password-hash", _BCRYPT, "a bcrypt hash, $2a$..."),
    }
    users = {name: _user(name, given.get(name)) for name in names}
    text = _config_text(settings_with(), groups, users)
    if file is None:
        typer.echo(text)
    else:
        _save(file, text)


def accounts(
    config: NatsBackendConfig, groups: list[WorkerGroup], users: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The accounts in the form of a nats-server configuration."""
    access_of = {group.name: worker_access(config, group.tags) for group in groups}
    own = {
        "jetstream": "enabled",
        "users": [users[ADMIN], {**users[GATEWAY], "permissions": _permissions(gateway_access(config))}],
        "exports": list(_exports(groups, access_of)),
    }
    return {ACCOUNT: own} | {
        group.account: {"users": [users[group.name]], "imports": _imports(access_of[group.name])}
        for group in groups
    }


def _exports(groups: list[WorkerGroup], access_of: dict[str, WorkerAccess]) -> Iterator[dict[str, Any]]:
    """Each subject once, with the accounts that may import it."""
    kinds: dict[tuple[str, str, bool], list[str]] = {}
    for group in groups:
        access = access_of[group.name]
        for subject in access.requests:
            kinds.setdefault(("service", subject, False), []).append(group.account)
        for subject in access.streamed:
            kinds.setdefault(("service", subject, True), []).append(group.account)
        for subject in access.subscribed:
            kinds.setdefault(("stream", subject, False), []).append(group.account)
    for (kind, subject, streamed), importers in kinds.items():
        yield {
            kind: subject,
            "accounts": importers,
            **({"response_type": "stream"} if streamed else {}),
        }


def _imports(access: WorkerAccess) -> list[dict[str, Any]]:
    services = [*access.requests, *access.streamed]
    return [{"service": {"account": ACCOUNT, "subject": subject}} for subject in services] + [
        {"stream": {"account": ACCOUNT, "subject": subject}} for subject in access.subscribed
    ]


def _permissions(access: UserAccess) -> dict[str, Any]:
    return {"publish": {"allow": access.publish}, "subscribe": {"allow": access.subscribe}}


def _user(name: str, given: str | None) -> dict[str, Any]:
    if given is not None and _PUBLIC_NKEY.fullmatch(given):
        return {"nkey": given}
    return {"user": name, "password": given or secrets.token_urlsafe(_PASSWORD_BYTES)}


def _config_text(
    config: NatsBackendConfig, groups: list[WorkerGroup], users: dict[str, dict[str, Any]]
) -> str:
    tags = sorted({tag for group in groups for tag in group.tags}) or [config.default_tag]
    lines = [
        "# Accounts and users for pyoco-server. Put it beside nats.conf, readable only by nats-server,",
        "# and add there:  include ./pyoco-users.conf",
        "#",
        "# Then, with the admin's settings, create the streams, the buckets and the queues of the tags:",
        f"#   pyoco-server-admin nats-setup {' '.join(f'--tag {tag}' for tag in tags)}",
        "#",
        "# The settings of each part, beside PYOCO_NATS_URL:",
        *(f"#   {name:8} {_login_settings(user)}" for name, user in users.items()),
    ]
    content = json.dumps(accounts(config, groups, users), indent=2)
    return "\n".join([*lines, f"accounts: {content}"])


def _login_settings(user: dict[str, Any]) -> str:
    if "nkey" in user:
        return f"PYOCO_NATS_NKEY_SEED_FILE=<the file with the seed of {user['nkey']}>"
    return f"PYOCO_NATS_USER={user['user']} PYOCO_NATS_PASSWORD=<the password of that user>"


def _group(text: str) -> WorkerGroup:
    name, _, tags = text.partition("=")
    group = WorkerGroup(name, comma_separated(tags))
    for word in (group.name, *group.tags):
        if not re.fullmatch(TAG_PATTERN, word):
            raise _invalid("worker", f"{shortened(word)}: {TAG_EXPECTED}", text)
    return group


def _credentials(
    texts: list[str] | None, names: list[str], option: str, form: re.Pattern[str], expected: str
) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        if name not in names:
            raise _invalid(option, f"expected one of the users {', '.join(names)} before the =", name)
        if not form.fullmatch(value):
            # The value may be a seed or a password, and is not repeated.
            raise InvalidCliArgument(problems=[FieldProblem(f"--{option} {name}", f"expected {expected}")])
        given[name] = value
    return given


def _save(path: Path, text: str) -> None:
    try:
        # Created without permissions for others, and never over a file whose passwords may be in use.
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _invalid("file", f"expected the path of a new file ({error.strerror})", str(path)) from error
    with os.fdopen(target, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _invalid(option: str, message: str, value: str) -> InvalidCliArgument:
    return InvalidCliArgument(problems=[FieldProblem(f"--{option}", message, value=shortened(value))])
