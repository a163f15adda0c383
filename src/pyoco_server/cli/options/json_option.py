"""The option `--json`: a JSON value as text, in a file, or on standard input."""

from pathlib import Path
from typing import Annotated, Any

from pyoco_server.cli.forms.answer_form import parsed_json
from pyoco_server.cli.forms.standard_input import piped_text
from pyoco_server.cli.options.shared_options import option
from pyoco_server.errors import InvalidCliArgument

JsonText = Annotated[
    str | None,
    option("The data as JSON (default: null); @FILE reads a file, - standard input.", "JSON", "--json"),
]


def given_json(text: str | None) -> Any:
    """The value; InvalidCliArgument says why there is none. Not given: None."""
    if text is None:
        return None
    if text == "-":
        text = piped_text()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InvalidCliArgument(f"--json: cannot read {text[1:]}: {reason}") from None
    try:
        return parsed_json(text)
    except ValueError as error:
        raise InvalidCliArgument(f"--json: {error}") from None
