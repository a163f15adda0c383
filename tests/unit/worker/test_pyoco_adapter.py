"""The adapter of pyoco: its check at the start, and loops with and without the engine's private hooks."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pytest
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.engine import Engine
from pyoco.dsl.expressions import Expression

from pyoco_server.errors import ConfigError
from pyoco_server.telemetry.fast_paths import fast_paths
from pyoco_server.worker.engine import pyoco_adapter
from tests.support.running.flow_runs import Executed, FlowUnderTest, outputs
from tests.unit.worker.test_resume_flows import counting, each, switched


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    pyoco_adapter.has_engine_hooks.cache_clear()
    yield
    pyoco_adapter.has_engine_hooks.cache_clear()
    pyoco_adapter.has_engine_hooks()


@pytest.fixture(params=["hooks", "public API"])
def hooked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "public API":
        monkeypatch.delattr(Engine, "_execute_task")
        assert not pyoco_adapter.has_engine_hooks()
        # The public way needs it inside.
        monkeypatch.undo()
    return pyoco_adapter.has_engine_hooks()


def test_this_version_of_pyoco_is_supported_with_its_hooks() -> None:
    pyoco_adapter.check_support()
    assert pyoco_adapter.has_engine_hooks()
    assert fast_paths()["pyoco"]


def test_a_changed_hook_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Engine, "_run_flow", lambda self, flow, ctx: None)
    with caplog.at_level(logging.WARNING):
        assert not pyoco_adapter.has_engine_hooks()
        assert not pyoco_adapter.has_engine_hooks()
    assert ["Engine._run_flow" in record.getMessage() for record in caplog.records] == [True]
    assert not fast_paths()["pyoco"]


def test_a_version_without_the_state_of_a_context_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: Any = dataclass(type("Context", (), {"__annotations__": {"params": dict, "results": dict}}))
    monkeypatch.setattr(pyoco_adapter, "_REQUIRED", {changed: pyoco_adapter._REQUIRED[Context]})
    monkeypatch.setattr(Engine, "run", lambda self, flow: None)
    with pytest.raises(ConfigError) as caught:
        pyoco_adapter.check_support()
    assert str(caught.value.detail) == (
        f"pyoco {version('pyoco')} is not supported: it has no Context._vars, "
        "Context.artifact_dir, Context.env, Context.run_context, Context.scratch, "
        "Engine.run(flow, params, run_context)"
    )


@pytest.mark.parametrize("make", [counting, each, switched])
@pytest.mark.usefixtures("hooked")
def test_a_resumed_loop_executes_no_finished_task(make: Callable[[Executed], Flow]) -> None:
    params = {"items": ["p", "q", "r"]}
    executed = Executed()
    first = FlowUnderTest(make(executed))
    expected = outputs(first.execute(params))
    for finished in range(len(first.written) + 1):
        again = Executed()
        resumed = FlowUnderTest(make(again)).execute(params, first.written[:finished], attempt=2)
        assert outputs(resumed) == expected
        assert again == executed[finished:]


@pytest.mark.usefixtures("hooked")
class TestLoops:
    def loop(self, function: Callable[..., Any]) -> FlowUnderTest:
        executed = Executed()
        return FlowUnderTest(Flow("loop") >> executed.task("body", function)[3] >> executed.task("after"))

    def test_an_error_names_its_task(self) -> None:
        def fail() -> None:
            raise ValueError("no")

        outcome = self.loop(fail).execute()
        assert (outcome.status, outcome.error) == ("FAILED", "task body: ValueError: no")

    def test_a_cancel_stops_the_loop(self) -> None:
        def cancel(ctx: Context) -> None:
            run.cancel()

        run = self.loop(cancel).prepare()
        outcome = run.execute()
        assert outcome is not None
        assert (outcome.status, outcome.tasks["after"]) == ("CANCELLED", "CANCELLED")

    def test_a_question_ends_the_execution(self) -> None:
        under_test = self.loop(lambda ctx: ctx.human("?"))
        outcome = under_test.execute()
        assert (outcome.status, outcome.tasks["body"]) == ("WAITING_HUMAN", "WAITING")
        assert len(under_test.asked) == 1


@pytest.mark.usefixtures("hooked")
class TestBoundedEvaluation:
    @pytest.mark.parametrize(
        ("condition", "words"),
        [
            ("$ctx.loop.__init__.__globals__", "begins with '_'"),
            ("$ctx.results.body.gi_frame", "is not data"),
            ("$ctx.params.s * 2000000000 == 1", "two numbers"),
            ("'%999999999d' % 1 == 1", "two numbers"),
        ],
    )
    def test_an_expression_of_a_loop(self, condition: str, words: str) -> None:
        body = Executed().task("body", lambda: (None for _ in ()))
        outcome = FlowUnderTest(Flow("loop") >> body % condition).execute({"s": "a"})
        assert outcome.status == "FAILED"
        assert words in (outcome.error or "")

    def test_an_input_of_a_task_in_a_loop(self) -> None:
        executed = Executed()
        body, after = executed.task("body", lambda: 1), executed.task("after", lambda x: x)
        after.task.inputs["x"] = "$node.body.output.__class__"
        outcome = FlowUnderTest(Flow("loop") >> body[1] >> after).execute()
        assert (outcome.status, outcome.tasks["after"]) == ("FAILED", "FAILED")
        assert "'__class__' begins with '_'" in (outcome.error or "")


def test_pyoco_itself_is_unchanged_after_a_run_without_hooks(hooked: bool) -> None:
    methods = Context.resolve, Expression.evaluate
    assert (
        FlowUnderTest(Flow("loop") >> Executed().task("body", lambda: 1)[2]).execute().status == "COMPLETED"
    )
    assert (Context.resolve, Expression.evaluate) == methods


def test_both_ways_are_tested(hooked: bool, request: pytest.FixtureRequest) -> None:
    assert hooked is ("public" not in request.node.name)
