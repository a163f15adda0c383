"""Groups of scopes: an endpoint takes keys with any one of its group."""

from typing import Final

from pyoco_server.auth.scopes import Scope

PUBLIC: Final[tuple[Scope, ...]] = ()
ANY_KEY: Final = tuple(Scope)
SUBMIT: Final = (Scope.SUBMIT,)
READ: Final = (Scope.READ,)
OPERATE: Final = (Scope.OPERATE,)
SUBMIT_OR_OPERATE: Final = (Scope.SUBMIT, Scope.OPERATE)
# Operators may read what they operate on.
READ_OR_OPERATE: Final = (Scope.READ, Scope.OPERATE)
# A key of an approver needs `answer` alone. `operate` does not include it: who may run and repair flows must
# not be able to approve what they propose.
ANSWER: Final = (Scope.ANSWER,)
READ_WAITS: Final = (Scope.READ, Scope.ANSWER, Scope.OPERATE)
# Whoever may submit a run may have it submitted at times; an operator may also stop that for a while.
PAUSE: Final = (Scope.SUBMIT, Scope.OPERATE)
PREVIEW: Final = (Scope.SUBMIT, Scope.READ)
READ_EVENTS: Final = (Scope.EVENTS, Scope.TRIGGERS)
CHANGE_TRIGGERS: Final = (Scope.TRIGGERS,)
SEND_EVENTS: Final = (Scope.SUBMIT, Scope.TRIGGERS)
WORKERS: Final = (Scope.WORKERS,)
READ_WORKERS: Final = (Scope.READ, Scope.OPERATE, Scope.WORKERS)
WHEELS: Final = (Scope.WHEELS,)
AUDIT: Final = (Scope.AUDIT,)
