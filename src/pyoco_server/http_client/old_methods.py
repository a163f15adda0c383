"""Methods of the public package's client under their old names: each warns, and calls the new one."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

# By old name: the new call, for the warning, and the new method with the arguments that the old name implies.
_OLD: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "get_run_with_records": ('get_run(run_id, include=["records"])', "get_run", {"include": ["records"]}),
    "get_workers": ("list_workers()", "list_workers", {}),
    "patch_worker_hidden": ("update_worker(worker_id, hidden=...)", "update_worker", {}),
    "get_metrics": ("metrics()", "metrics", {}),
    "list_wheel_history": ("wheel_history()", "wheel_history", {}),
}


class OldMethods:
    """Not declared for type checkers, which then name them as unknown."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            if name not in _OLD:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            shown, method, implied = _OLD[name]

            def call(*args: Any, **kwargs: Any) -> Any:
                # None was the default of every option.
                given = {option: value for option, value in kwargs.items() if value is not None}
                text = f"`{name}` is an old name; use `{shown}`"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(self, method)(*args, **implied, **given)

            return call
