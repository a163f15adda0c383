"""The dashboard's types are made of the API as it is."""

from tests.support.samples.openapi_document import KEPT, current_document


def test_the_kept_document_is_the_current_one() -> None:
    cure = "run `python -m tests.support.samples.openapi_document`, then `npm run lint` in ui/"
    assert KEPT.read_text(encoding="utf-8") == current_document(), cure
