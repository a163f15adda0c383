"""Log lines: one a record, only known fields, never a secret, and never a failure of the program."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors.error_table import Err
from pyoco_server.telemetry.logging_config import (
    CONTEXT_FIELDS,
    configure_logging,
    exception_fields,
)
from pyoco_server.telemetry.run_fields import MAX_RUNS, remember_run

UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
ALWAYS = ["ts", "service", "level", "logger", "message", "pathname", "lineno", "func"]

log = logging.getLogger("tests.logging")


@contextmanager
def logging_to(stream: io.TextIOBase, **settings: Any) -> Iterator[None]:
    """The product's logging on this stream; afterwards the process logs as it did before."""
    loggers = [logging.getLogger(), *map(logging.getLogger, UVICORN)]
    before = [(one, list(one.handlers), one.level, one.propagate) for one in loggers]
    try:
        logging.getLogger().handlers.clear()  # the test runner's, which fail a test where ours must not
        configure_logging(
            service="pyoco-server:http",
            config=NatsBackendConfig(**settings),
            stream=stream,  # type: ignore[arg-type]  # every text stream of io is a TextIO in all but name
        )
        yield
    finally:
        for one, handlers, level, propagate in before:
            one.handlers[:], one.propagate = handlers, propagate
            one.setLevel(level)


def lines_of(output: io.StringIO) -> list[dict[str, Any]]:
    text = output.getvalue()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def fail(error: Exception) -> None:
    raise error


def logged(
    message: str, *args: object, settings: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    output = io.StringIO()
    with logging_to(output, **(settings or {})):
        log.error(message, *args, **options)
    (line,) = lines_of(output)
    return line


def logged_text(message: str, stream: type[io.StringIO] = io.StringIO, **options: Any) -> str:
    """The output in the format for people."""
    settings = {"log_format": "text", **options.pop("settings", {})}
    output = stream()
    with logging_to(output, **settings):
        log.error(message, **options)
    return output.getvalue()


ERROR_LINE = logged_text.__code__.co_firstlineno + 5


class TestRuns:
    def test_a_line_about_a_known_run_has_its_flow_tag_and_worker(self) -> None:
        remember_run("r-known", flow_name="load", tag="gpu", worker_id="w1")
        line = logged("x", extra={"run_id": "r-known"})
        assert (line["flow_name"], line["tag"], line["worker_id"]) == ("load", "gpu", "w1")

    def test_what_the_call_gives_is_preferred(self) -> None:
        remember_run("r-known", flow_name="load", tag="gpu", worker_id=None)
        line = logged("x", extra={"run_id": "r-known", "tag": "cpu", "worker_id": "w2"})
        assert (line["flow_name"], line["tag"], line["worker_id"]) == ("load", "cpu", "w2")

    def test_the_oldest_runs_are_forgotten(self) -> None:
        for number in range(MAX_RUNS + 1):
            remember_run(f"old-{number}", flow_name="f", tag="t", worker_id=None)
        assert "tag" not in logged("x", extra={"run_id": "old-0"})
        assert logged("x", extra={"run_id": f"old-{MAX_RUNS}"})["tag"] == "t"


class TestFields:
    def test_a_plain_record_has_the_fields_that_are_always_there(self) -> None:
        line = logged("hello %s", "world")
        assert list(line) == ALWAYS
        assert {**line, "ts": "", "lineno": 0} == {
            "ts": "",
            "service": "pyoco-server:http",
            "level": "ERROR",
            "logger": "tests.logging",
            "message": "hello world",
            "pathname": __file__,
            "lineno": 0,
            "func": "logged",
        }
        assert isinstance(line["lineno"], int)

    @pytest.mark.parametrize("utc", [True, False])
    def test_the_time_is_utc_with_milliseconds_or_local_with_its_offset(self, utc: bool) -> None:
        stamp = logged("x", settings={"log_utc": utc})["ts"]
        moment = datetime.fromisoformat(stamp)
        assert stamp.endswith("Z") == utc
        assert len(stamp.removesuffix("Z")[:23]) == len("2026-01-02T03:04:05.678")
        assert moment.utcoffset() == (timedelta(0) if utc else datetime.now().astimezone().utcoffset())
        assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)

    def test_context_comes_from_the_extras(self) -> None:
        context = {name: f"some {name}" for name in CONTEXT_FIELDS}
        line = logged("x", extra=context)
        assert list(line) == ALWAYS + list(CONTEXT_FIELDS)
        assert {name: line[name] for name in CONTEXT_FIELDS} == context

    def test_the_context_fields_are_those_of_the_contract(self) -> None:
        assert CONTEXT_FIELDS == ("run_id", "flow_name", "tag", "worker_id", "err_id", "msg_id", "reason")

    def test_an_error_of_the_table_is_logged_with_its_ids(self) -> None:
        line = logged("x", extra=Err.INVALID_JOB.log_fields(run_id=None, reason="invalid_job"))
        assert (line["err_id"], line["msg_id"]) == ("ERR-PYOCO-0012", "MSG-PYOCO-0012")
        assert line["reason"] == "invalid_job"
        assert "run_id" not in line, "an unknown context is left out"

    def test_other_extras_never_appear(self) -> None:
        line = logged("x", extra={"params": {"password": "hunter22"}, "api_key": "hunter22"})
        assert "hunter22" not in json.dumps(line)
        assert list(line) == ALWAYS

    def test_a_structure_in_a_context_field_shows_its_type_only(self) -> None:
        line = logged("x", extra={"reason": {"password": "hunter22"}, "run_id": UUID(int=7)})
        assert line["reason"] == "<dict>"
        assert line["run_id"] == str(UUID(int=7))

    def test_the_level_is_a_setting(self) -> None:
        output = io.StringIO()
        with logging_to(output, log_level="WARNING"):
            log.info("quiet")
            log.warning("loud")
        assert [line["message"] for line in lines_of(output)] == ["loud"]

    def test_arguments_that_do_not_fit_leave_the_message(self) -> None:
        line = logged("wants a number: %d", "hunter22")
        assert line["message"] == "wants a number: %d (its arguments do not fit: TypeError)"


class TestExceptions:
    def test_an_exception_is_told_with_its_origin(self) -> None:
        try:
            fail(ValueError("bad\ninput"))
        except ValueError:
            line = logged("x", exc_info=True)
        assert line["exc_type"] == "ValueError"
        assert line["exc_message"] == "bad\ninput"
        assert line["exc_traceback"].startswith("Traceback (most recent call last):\n")
        assert line["exc_traceback"].endswith("ValueError: bad\ninput\n")
        assert line["exc_origin"] == {
            "file": __file__,
            "line": fail.__code__.co_firstlineno + 1,
            "func": "fail",
        }

    def test_the_cause_is_in_the_traceback(self) -> None:
        error = ValueError("outer")
        error.__cause__ = KeyError("inner")
        assert "KeyError: 'inner'" in logged("x", exc_info=error)["exc_traceback"]

    def test_the_traceback_can_be_left_out(self) -> None:
        line = logged("x", exc_info=ValueError("bad"), settings={"log_include_traceback": False})
        assert line["exc_message"] == "bad"
        assert "exc_traceback" not in line

    def test_an_exception_that_was_never_raised_has_no_origin(self) -> None:
        line = logged("x", exc_info=ValueError("bad"))
        assert line["exc_type"] == "ValueError"
        assert "exc_origin" not in line

    def test_an_exception_that_cannot_be_printed_is_still_logged(self) -> None:
        line = logged("x", exc_info=UnprintableError())
        assert line["exc_type"] == "UnprintableError"
        assert line["exc_message"] == "(no message: its __str__ raised RuntimeError)"

    def test_an_exception_of_another_process_is_given_as_texts(self) -> None:
        foreign: dict[str, object] = {
            "exc_type": "ValueError",
            "exc_message": "bad",
            "exc_traceback": "Traceback ...\nValueError: bad\n",
            "exc_origin": {"file": "flow.py", "line": 3, "func": "load", "locals": {"key": "hunter22"}},
        }
        line = logged("x", extra=foreign)
        assert {name: line[name] for name in foreign} == foreign | {
            "exc_origin": {"file": "flow.py", "line": 3, "func": "load"}
        }
        assert (line["pathname"], line["lineno"], line["func"]) == ("flow.py", 3, "load")
        without = logged("x", extra=foreign, settings={"log_include_traceback": False})
        assert "exc_traceback" not in without
        assert without["exc_type"] == "ValueError"

    def test_what_is_not_a_text_is_not_taken_for_one(self) -> None:
        assert list(logged("x", extra={"exc_message": {"password": "hunter22"}, "exc_origin": 1})) == ALWAYS

    def test_exception_fields_make_the_same_line_without_the_secrets(self) -> None:
        params = {"db": {"password": "hunter22"}}
        try:
            fail(ValueError("cannot log in with hunter22"))
        except ValueError as error:
            line = logged("x", extra=exception_fields(error, secrets=[params]))
        assert line["exc_message"] == "cannot log in with [redacted]"
        assert line["exc_traceback"].endswith("ValueError: cannot log in with [redacted]\n")
        assert line["exc_origin"]["func"] == "fail"
        assert "hunter22" not in json.dumps(line)


class TestOneLine:
    @given(message=st.text(), name=st.text(), failure=st.text())
    @example(message="a\nb\r\nc", name="\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e", failure="\ud800 \x1b[31m")
    def test_any_text_is_one_json_line(self, message: str, name: str, failure: str) -> None:
        output = io.StringIO()
        with logging_to(output):
            log.error(message, exc_info=ValueError(failure), extra={"flow_name": name})
        (line,) = lines_of(output)
        assert (line["message"], line["flow_name"], line["exc_message"]) == (message, name, failure)

    @given(message=st.text())
    def test_any_text_can_be_written_to_a_real_stream(self, message: str) -> None:
        for encoding in ("utf-8", "ascii", "shift_jis"):
            raw = io.BytesIO()
            output = io.TextIOWrapper(raw, encoding=encoding)
            with logging_to(output):
                log.error(message)
            assert json.loads(raw.getvalue().decode(encoding))["message"] == message

    def test_japanese_stays_readable_where_the_stream_allows_it(self) -> None:
        output = io.TextIOWrapper(raw := io.BytesIO(), encoding="utf-8")
        with logging_to(output):
            log.error(Err.RUN_NOT_FOUND.ja)
        assert Err.RUN_NOT_FOUND.ja in raw.getvalue().decode()

    @given(message=st.text(), name=st.text())
    def test_text_for_people_is_one_line_too(self, message: str, name: str) -> None:
        text = logged_text(message, extra={"flow_name": name})
        assert len(text.splitlines()) == 1
        assert "\x1b" not in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestText:
    def test_it_is_compact(self) -> None:
        stamp, _, rest = logged_text(
            "it broke",
            exc_info=ValueError("bad\ninput"),
            extra={"run_id": "r1", "params": "hunter22"},
            settings={"log_include_traceback": False},
        ).partition(" ")
        assert datetime.fromisoformat(stamp)
        assert rest == (
            f"ERROR   pyoco-server:http tests.logging ({__file__}:{ERROR_LINE} logged_text): "
            "it broke [run_id=r1] | ValueError: bad\\ninput\n"
        )

    def test_the_place_is_where_a_reported_exception_was_raised(self) -> None:
        origin = {"file": "/app/flow.py", "line": 3, "func": "load"}
        text = logged_text("it broke", extra={"exc_type": "ValueError", "exc_origin": origin})
        assert " pyoco-server:http tests.logging (/app/flow.py:3 load): it broke" in text

    def test_the_traceback_follows_indented(self) -> None:
        try:
            fail(ValueError("bad"))
        except ValueError:
            first, *trace = logged_text("it broke", exc_info=True).splitlines()
        assert first.endswith("it broke | ValueError: bad")
        assert trace[0] == "    Traceback (most recent call last):"
        assert trace[-1] == "    ValueError: bad"
        assert all(part.startswith("    ") for part in trace)

    def test_colour_is_for_text_on_terminals(self) -> None:
        assert "\x1b[31mERROR" in logged_text("x", Terminal)
        assert "\x1b" not in logged_text("x", io.StringIO)
        assert "\x1b" not in logged_text("x", Terminal, settings={"log_format": "json"})


class TestSetUp:
    def test_a_second_call_replaces_the_first_and_keeps_handlers_of_the_program(self) -> None:
        first, second, own = io.StringIO(), io.StringIO(), logging.StreamHandler(io.StringIO())
        with logging_to(first):
            logging.getLogger().addHandler(own)
            configure_logging(service="pyoco-server:worker", config=NatsBackendConfig(), stream=second)
            assert len(logging.getLogger().handlers) == 2
            assert own in logging.getLogger().handlers
            log.error("x")
        assert first.getvalue() == ""
        assert [line["service"] for line in lines_of(second)] == ["pyoco-server:worker"]

    def test_the_settings_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
        monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")
        output = io.StringIO()
        with logging_to(io.StringIO()):
            configure_logging(service="pyoco-server:http", stream=output)
            log.error("for people")
        assert output.getvalue().endswith("): for people\n")

    def test_the_default_is_the_standard_output_of_that_moment(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with logging_to(io.StringIO()):
            configure_logging(service="pyoco-server:http", config=NatsBackendConfig())
            swapped = io.StringIO()
            monkeypatch.setattr(sys, "stdout", swapped)
            log.error("not for the flow's output")
            monkeypatch.undo()
        assert swapped.getvalue() == ""
        assert json.loads(capsys.readouterr().out)["message"] == "not for the flow's output"

    def test_uvicorn_goes_the_same_way(self) -> None:
        output, own = io.StringIO(), io.StringIO()
        with logging_to(io.StringIO()):
            for name in UVICORN:
                logger = logging.getLogger(name)
                logger.addHandler(logging.StreamHandler(own))
                logger.propagate = False
            with logging_to(output):
                for name in UVICORN:
                    logging.getLogger(name).error("from %s", name)
        assert [line["logger"] for line in lines_of(output)] == list(UVICORN)
        assert own.getvalue() == ""
