"""Every fix of the table can be reverted in today's code, and is in place again afterwards."""

from types import FunctionType

import pytest

from tests.simulation.code_substitution import Substitution, SubstitutionOutdated, substituted
from tests.simulation.fixes import FIXES, Fix
from tests.simulation.schedule import SCENARIOS

_HERE = __name__


def doubled(number: int) -> int:
    return number * 2


async def doubled_later(number: int) -> int:
    return number * 2


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.name)
def test_fix_can_be_reverted(fix: Fix) -> None:
    functions: list[FunctionType] = [revert.function() for revert in fix.reverts]
    before = [function.__code__ for function in functions]
    with fix.reverted():
        assert all(function.__code__ != code for function, code in zip(functions, before, strict=True))
    assert [function.__code__ for function in functions] == before


def test_fixes_have_names_of_their_own_and_known_scenarios() -> None:
    assert len({fix.name for fix in FIXES}) == len(FIXES)
    assert {name for fix in FIXES for name in fix.scenarios} <= SCENARIOS.keys()


async def test_substitution_lasts_as_long_as_its_block() -> None:
    changes = (
        Substitution(f"{_HERE}:doubled", "number * 2", "number * 3"),
        Substitution(f"{_HERE}:doubled_later", "number * 2", "number * 4"),
    )
    with substituted(*changes):
        assert (doubled(1), await doubled_later(1)) == (3, 4)
    assert (doubled(1), await doubled_later(1)) == (2, 2)


@pytest.mark.parametrize(
    ("target", "old"),
    [
        (f"{_HERE}:doubled", "number * 5"),
        (f"{_HERE}:doubled", "number"),
        (f"{_HERE}:tripled", "number * 2"),
        (f"{_HERE}:doubled.other", "number * 2"),
    ],
)
def test_outdated_substitution_is_an_error(target: str, old: str) -> None:
    with pytest.raises(SubstitutionOutdated), substituted(Substitution(target, old, "0")):
        pytest.fail("it was applied")
    assert doubled(1) == 2
