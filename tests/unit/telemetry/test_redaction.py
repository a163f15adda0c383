"""Taking a run's params out of a user's exception text: every value goes, the rest stays readable."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_server.telemetry.logging_config import exception_fields, redact, redact_exception
from pyoco_server.telemetry.redaction import MAX_VALUES

SECRETS = st.recursive(
    st.text(max_size=12) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def strings_in(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings_in(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings_in(inner)]
    return [value] if isinstance(value, str) and len(value) >= 4 else []


class TestRedact:
    @given(secrets=st.lists(SECRETS, max_size=3), data=st.data())
    def test_no_secret_is_left(self, secrets: list[object], data: st.DataObject) -> None:
        hidden = strings_in(secrets)
        words = st.text(max_size=8) | st.sampled_from([*hidden, ""])
        text = "".join(data.draw(st.lists(words, max_size=6)))
        for piece in redact(text, secrets).split("[redacted]"):
            assert not [secret for secret in hidden if secret in piece]

    @given(text=st.text())
    def test_a_text_without_secrets_stays(self, text: str) -> None:
        assert redact(text, []) == text
        assert redact(text, [{text: None, "b": [None, True, False, ""], "c": {}}]) == text

    @given(number=st.integers() | st.floats(allow_nan=False, allow_infinity=False))
    @example(number=4929123456781234)
    @example(number=0)
    @example(number=10**30)
    def test_a_number_is_a_secret(self, number: int | float) -> None:
        assert redact(f"got {number}, no more", [{"k": [number]}]) == "got [redacted], no more"
        assert redact(json.dumps({"k": number}), {"k": number}) == '{"k": [redacted]}'

    def test_a_whole_number_is_hidden_however_it_was_read(self) -> None:
        assert redact("4929123456781234", [4929123456781234.0]) == "[redacted]"
        assert redact("7 of 7.0", [7]) == "[redacted] of [redacted].0"

    @pytest.mark.parametrize("secret", [12, "12", "abc", "a", "-", "é", "1.5", 1.5, -7])
    def test_a_short_value_is_hidden_as_a_whole_word(self, secret: object) -> None:
        for text in ("{}", "is {}.", "({})", "k={}", "'{}'", "{}, {}"):
            assert redact(text.format(secret, secret), [secret]) == text.format("[redacted]", "[redacted]")
        for text in ("x{}", "{}x", "_{}", "1{}", "{}0"):
            assert redact(text.format(secret), [secret]) == text.format(secret)

    def test_a_short_value_inside_a_longer_one_does_not_break_it_up(self) -> None:
        assert redact("a 12 b", [12, "a 12 b"]) == "[redacted]"
        assert redact("123456789", [123456789, "1234"]) == "[redacted]"

    def test_truth_values_are_not_secrets(self) -> None:
        assert redact("True 1 False 0 None", [True, False, None]) == "True 1 False 0 None"

    def test_a_number_that_cannot_be_written_is_passed_over(self) -> None:
        assert redact("hunter22", [10**5000, float("nan"), float("inf"), "hunter22"]) == "[redacted]"

    def test_of_very_many_values_the_longest_are_hidden(self) -> None:
        params = {f"k{number}": f"value-{number}" for number in range(20 * MAX_VALUES)}
        params["token"] = "a secret longer than the others"
        text = "a secret longer than the others, value-7 " * 200
        # What is not looked for costs nothing.
        assert redact(text, params) == "[redacted], value-7 " * 200

    def test_a_text_that_quotes_every_value_is_read_in_time(self) -> None:
        params = {f"k{number}": f"secret-{number:06}" for number in range(MAX_VALUES)}
        started = time.thread_time()
        shown = redact(repr(params) * 4, params)
        assert time.thread_time() - started < 5
        assert "secret-" not in shown
        assert shown.count("[redacted]") == 4 * MAX_VALUES

    def test_the_longest_secret_is_replaced_whole(self) -> None:
        assert redact("my password2 is", ["password", "password2"]) == "my [redacted] is"

    @pytest.mark.parametrize("value", ["two\nlines", 'it\'s "quoted"', "日本語の秘密", "back\\slash"])
    def test_a_value_inside_a_repr_or_json_is_hidden(self, value: str) -> None:
        for text in (repr({"k": value}), json.dumps({"k": value}), str(KeyError(value))):
            assert redact(text, [value]) in (
                text[:7] + "[redacted]" + text[-2:],
                text[0] + "[redacted]" + text[-1],
            )

    def test_one_mapping_or_one_text_is_taken_for_what_it_is(self) -> None:
        assert redact("hunter22", {"password": "hunter22"}) == "[redacted]"
        assert redact("hunter22", "hunter22") == "[redacted]"

    def test_a_structure_that_contains_itself_ends(self) -> None:
        loop: list[object] = ["hunter22"]
        loop.append(loop)
        assert redact("hunter22", loop) == "[redacted]"


TRACE = """Traceback (most recent call last):
  File "flow.py", line 12, in load
    limit = 12
KeyError: 12

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "flow.py", line 312, in run
    raise ValueError(f"12 is bad") from error
ValueError: 12 is bad:
  12 of hunter22
"""


class TestRedactException:
    @pytest.mark.parametrize("before", ["", "ValueError: ", "task load: ValueError: "])
    def test_messages_are_redacted_and_frames_can_be_read(self, before: str) -> None:
        message, trace = redact_exception(
            f"{before}12 is bad:\n  12 of hunter22", TRACE, [{"n": 12, "password": "hunter22"}]
        )
        assert message == f"{before}[redacted] is bad:\n  [redacted] of [redacted]"
        assert trace == TRACE.replace(": 12", ": [redacted]").replace(
            "  12 of hunter22", "  [redacted] of [redacted]"
        )
        assert 'File "flow.py", line 12, in load\n    limit = 12\n' in trace

    def test_a_message_that_is_only_a_short_number(self) -> None:
        trace = TRACE.partition("\n\n")[0]
        for message in ("12", "task load: KeyError: 12"):
            shown = redact_exception(message, trace, {"n": 12})
            assert shown == (message.replace("12", "[redacted]"), trace.replace(": 12", ": [redacted]"))

    def test_long_values_are_hidden_in_frames_too(self) -> None:
        trace = '  File "hunter22/flow.py", line 1, in f\n    pay(4929123456781234)\nValueError\n'
        _, shown = redact_exception("", trace, [["hunter22", 4929123456781234]])
        assert shown == '  File "[redacted]/flow.py", line 1, in f\n    pay([redacted])\nValueError\n'

    def test_a_secret_of_several_lines_is_hidden(self) -> None:
        _, trace = redact_exception("x", "    a(\nline one\n  line two\n", ["line one\n  line two"])
        assert trace == "    a(\n[redacted]\n"

    def test_without_secrets_nothing_changes(self) -> None:
        assert redact_exception("12 is bad", TRACE, []) == ("12 is bad", TRACE)
        assert redact_exception("", "", [{"n": 12}]) == ("", "")

    def test_the_word_of_redaction_may_be_a_secret_too(self) -> None:
        shown = redact_exception("redacted 12", "ValueError: redacted 12\n", ["redacted", 12])
        assert shown == ("[redacted] [redacted]", "ValueError: [redacted] [redacted]\n")

    def test_a_group_of_exceptions(self) -> None:
        def failing() -> None:
            raise ExceptionGroup("12 of them", [ValueError("12 is bad"), KeyError(12)])

        line = failing.__code__.co_firstlineno + 1
        try:
            failing()
        except ExceptionGroup as error:
            fields = exception_fields(error, secrets=[{"n": 12, "line": line}])
        assert fields["exc_message"] == "[redacted] of them (2 sub-exceptions)"
        trace = str(fields["exc_traceback"])
        assert f", line {line}, in failing\n" in trace
        assert "ExceptionGroup: [redacted] of them (2 sub-exceptions)\n" in trace
        assert "ValueError: [redacted] is bad\n" in trace
        assert "KeyError: [redacted]\n" in trace
