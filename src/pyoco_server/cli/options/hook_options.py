"""The fields of a hook as options that `hooks create` and `hooks update` share."""

from typing import Annotated, Any

import typer

from pyoco_server.cli.options.shared_options import one_of, option, text_option
from pyoco_server.cli.options.trigger_options import Pair, by_name, loose_value, pair_option
from pyoco_server.records.triggers.hook_models import HOOK_ID_EXPECTED, HookKind, HookOverlap, is_hook_id


def _checked_hook_id(text: str) -> str:
    if not is_hook_id(text):
        raise typer.BadParameter(f"{text!r}: {HOOK_ID_EXPECTED}")
    return text


HookIdArgument = Annotated[
    str, typer.Argument(help="The id of the hook.", metavar="HOOK_ID", parser=_checked_hook_id)
]
KindOption = Annotated[
    str | None,
    option(
        f"How the sender proves who it is: {', '.join(HookKind)}.",
        "KIND",
        "--kind",
        parser=one_of(HookKind, str.lower),
        autocompletion=lambda: list(HookKind),
    ),
]
Tenant = Annotated[str | None, text_option("For operators: the tenant of the hook.", "ID")]
Revision = Annotated[
    int | None, option("Only if the hook is still at this revision.", "N", min=1, show_default=False)
]


def hook_fields(
    *,
    map_params: Annotated[
        list[Pair] | None,
        pair_option(
            "A param and its source: a JSON pointer into the body, header:NAME or query:NAME "
            "(default: the whole body as payload)",
            "PARAM=SOURCE",
            "--map",
        ),
    ] = None,
    only_if: Annotated[
        list[Pair] | None,
        pair_option("Only deliveries with this value at a source start a run", "SOURCE=VALUE"),
    ] = None,
    idempotency: Annotated[
        str | None,
        text_option("Where the id of a delivery is (default: the sender's own delivery id).", "SOURCE"),
    ] = None,
    overlap: Annotated[
        str | None,
        option(
            f"While an earlier run of the hook is open: {', '.join(HookOverlap)}.",
            "POLICY",
            parser=one_of(HookOverlap, str.lower),
            autocompletion=lambda: list(HookOverlap),
        ),
    ] = None,
    signature: Annotated[
        list[Pair] | None,
        pair_option(
            "Of the kinds hmac and token: header, algorithm, encoding, prefix, timestamp_header or "
            "signed_text",
            "FIELD=VALUE",
        ),
    ] = None,
    note: Annotated[str | None, text_option("A note for people.", "TEXT")] = None,
) -> dict[str, Any]:
    """The given fields of a hook, beside what it starts."""
    fields = {
        "map": by_name(map_params) or None,
        "only_if": {source: loose_value(text) for source, text in by_name(only_if).items()} or None,
        "idempotency": idempotency,
        "overlap": overlap,
        "signature": by_name(signature) or None,
        "note": note,
    }
    return {name: value for name, value in fields.items() if value is not None}
