"""Who asks, and what it may know of: the one rule by which tenants are kept apart.

Whoever looks for a run, a dead letter or a bulk operation says in whose name. What another tenant has is not
found, in the same way as what does not exist: it is looked for, and then the same error is raised.
"""

from dataclasses import dataclass


def visible_to(tenant: str | None, owner: str | None) -> bool:
    """Whether one who is held to a tenant (None: to none) may know of what `owner` has.

    What was made without a key has no owner, and is for those alone who are held to no tenant.
    """
    return tenant is None or owner == tenant


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever a request came from."""

    # Written down with what it submits; None where no keys are asked for.
    tenant_id: str | None
    api_key_id: str | None
    # Of the operator's tenant, or where no keys are asked for.
    sees_all: bool

    def __post_init__(self) -> None:
        assert self.sees_all or self.tenant_id, "one who is held to nothing would see everything"

    @property
    def confined_to(self) -> str | None:
        """The tenant that it is held to; None: it may know of everything."""
        return None if self.sees_all else self.tenant_id

    def sees(self, owner: str | None) -> bool:
        return visible_to(self.confined_to, owner)


# No keys are asked for.
ANYBODY = Caller(None, None, sees_all=True)
