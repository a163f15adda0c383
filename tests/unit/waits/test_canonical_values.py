"""The canonical form of a proposal or an answer, from which its digest follows."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.records.waits.wait_models import canonical, digest_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_a_value_is_the_same_however_its_keys_are_ordered(value: Any) -> None:
    def turned(value: Any) -> Any:
        match value:
            case dict():
                return {name: turned(value[name]) for name in reversed(value)}
            case list():
                return [turned(each) for each in value]
        return value

    assert canonical(turned(value)) == canonical(value)


def test_a_character_is_the_same_in_either_form_of_unicode() -> None:
    composed, taken_apart = "\u00e9", "e\u0301"
    # As keys they sort differently beside an f.
    assert canonical({composed: 1, "f": [composed]}) == canonical({"f": [taken_apart], taken_apart: 1})
    assert digest_of(["\n\u0301"]) != digest_of(["\n"])
    assert canonical("ﬁ") != canonical("fi")
