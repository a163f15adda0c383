"""Methods of the public package's client: each says the new name and calls it."""

from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient


@pytest.mark.parametrize(
    ("old", "arguments", "options", "new", "expected"),
    [
        ("get_run_with_records", ("r",), {}, "get_run", {"include": ["records"]}),
        ("get_workers", (), {"scope": "all", "state": None}, "list_workers", {"scope": "all"}),
        ("patch_worker_hidden", ("w",), {"hidden": True}, "update_worker", {"hidden": True}),
        ("get_metrics", (), {}, "metrics", {}),
        ("list_wheel_history", (), {"limit": 3}, "wheel_history", {"limit": 3}),
    ],
)
def test_an_old_method_calls_the_new_one_and_says_its_name(
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    arguments: tuple[str, ...],
    options: dict[str, Any],
    new: str,
    expected: dict[str, Any],
) -> None:
    monkeypatch.setattr(PyocoHttpClient, new, lambda self, *args, **kwargs: (args, kwargs))
    with PyocoHttpClient() as client, pytest.warns(DeprecationWarning, match=f"`{old}`.*use `{new}"):
        assert getattr(client, old)(*arguments, **options) == (arguments, expected)


def test_an_unknown_method_is_an_attribute_error() -> None:
    with PyocoHttpClient() as client, pytest.raises(AttributeError, match="'get_nothing'"):
        client.get_nothing  # type: ignore[attr-defined] # noqa: B018
