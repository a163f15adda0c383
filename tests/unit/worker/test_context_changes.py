"""Which changes of the shared state are recorded for a task, and restored by a replay."""

import json
import pickle
import sys
import threading
from collections import UserDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from pyoco import Flow
from pyoco.core.context import Context
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.worker.engine.journal.journal_values import load_changes
from pyoco_server.worker.engine.tasks.context_changes import Changes, ContextChanges, groups_that_share
from tests.support.running.flow_runs import FlowUnderTest, record
from tests.support.waiting import LIMIT_SEC


@pytest.fixture
def state() -> tuple[Context, ContextChanges]:
    context, changes = Context(params={"p": [1]}, scratch={"old": {"a": 1}, "text": "x"}), ContextChanges()
    changes.attach(context)
    return context, changes


def of(changes: Changes) -> dict[str, Any]:
    return {f"{root}.{name}": value for (root, name), value in changes[0].items()}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ctx: ctx.scratch.__setitem__("new", 1), {"scratch.new": 1}),
        (lambda ctx: ctx.scratch["old"].update(a=2), {"scratch.old": {"a": 2}}),
        (lambda ctx: ctx.scratch.get("old").update(a=2), {"scratch.old": {"a": 2}}),
        (lambda ctx: next(iter(ctx.scratch.values())).update(b=1), {"scratch.old": {"a": 1, "b": 1}}),
        (lambda ctx: ctx.scratch.update(text="y", more=2), {"scratch.text": "y", "scratch.more": 2}),
        (lambda ctx: ctx.scratch.setdefault("list", []).append(3), {"scratch.list": [3]}),
        (lambda ctx: ctx.params["p"].append(2), {"params.p": [1, 2]}),
        (lambda ctx: ctx.set_var("v", 1), {"_vars.v": 1}),
        (lambda ctx: ctx.scratch["old"], {}),
        (lambda ctx: ctx.scratch.__setitem__("text", "x"), {}),
    ],
)
def test_every_kind_of_change_is_recorded(
    state: tuple[Context, ContextChanges], change: Any, expected: dict[str, Any]
) -> None:
    context, changes = state
    touched = changes.began({})
    change(context)
    assert of(changes.ended(touched)[0]) == expected


def test_removed_names_are_recorded(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    touched = changes.began({})
    del context.scratch["text"]
    context.scratch.pop("old")
    assert changes.ended(touched)[0] == ({}, [("scratch", "text"), ("scratch", "old")])


def test_an_input_that_is_a_param_is_tracked(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    inputs = {"p": context.params["p"]}
    touched = changes.began(inputs)
    inputs["p"].append(2)
    assert of(changes.ended(touched)[0]) == {"params.p": [1, 2]}


def test_changes_of_a_parallel_task_are_not_recorded(
    state: tuple[Context, ContextChanges],
) -> None:
    context, changes = state
    half_done, must_resume = threading.Event(), threading.Event()
    told: dict[str, Changes] = {}

    def writes_twice() -> None:
        touched = changes.began({})
        context.scratch["n"] = "half"
        half_done.set()
        must_resume.wait(LIMIT_SEC)
        context.scratch["n"] = "done"
        told["writes_twice"] = changes.ended(touched)[0]

    thread = threading.Thread(target=writes_twice)
    thread.start()
    half_done.wait(LIMIT_SEC)
    touched = changes.began({})
    context.scratch["mine"] = 1
    told["other"] = changes.ended(touched)[0]
    must_resume.set()
    thread.join()
    assert of(told["other"]) == {"scratch.mine": 1}
    assert of(told["writes_twice"]) == {"scratch.n": "done"}


def test_a_newer_value_is_not_overwritten_by_an_older_one(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    changes.restore(({("scratch", "n"): "newer"}, []), order=5)
    changes.restore(({("scratch", "n"): "older", ("scratch", "m"): 1}, [("scratch", "text")]), order=2)
    assert dict(context.scratch) == {"old": {"a": 1}, "n": "newer", "m": 1}


def test_a_value_that_cannot_be_stored_is_named(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    context.scratch["lock"] = threading.Lock()
    touched = changes.began({})
    context.scratch["lock"].acquire()
    assert changes.ended(touched) == (({}, []), ["scratch 'lock'"])


def test_the_tracked_state_behaves_like_a_dictionary(state: tuple[Context, ContextChanges]) -> None:
    scratch = state[0].scratch
    assert isinstance(scratch, dict)
    assert json.loads(json.dumps(scratch)) == {"old": {"a": 1}, "text": "x"}
    assert type(pickle.loads(pickle.dumps(scratch))) is dict
    assert scratch | {"z": 1} == {"old": {"a": 1}, "text": "x", "z": 1}


# Replays


def chain(*functions: Callable[..., Any], **inputs: dict[str, Any]) -> Flow:
    """The functions as tasks, one after the other; `inputs` are those of the task of that name."""
    flow = Flow("stateful")
    for function in functions:
        name = function.__name__
        flow = flow >> TaskWrapper(Task(func=function, name=name, inputs=inputs.get(name, {})))
    return flow


def ends_the_same_wherever_it_is_cut_off(
    make: Callable[[], Flow], params: Callable[[], dict[str, Any]] = dict
) -> Any:
    """What the last task returns, after as many replayed tasks as there are."""
    first = FlowUnderTest(make())
    undisturbed = first.execute(params())
    assert undisturbed.status == "COMPLETED", undisturbed.error
    last = first.written[-1].task
    expected = record(undisturbed, last)["output"]
    for finished in range(len(first.written)):
        resumed = FlowUnderTest(make()).execute(params(), first.written[:finished], attempt=2)
        assert (resumed.status, resumed.error) == ("COMPLETED", None), finished
        assert record(resumed, last)["output"] == expected, finished
    return expected


def read(ctx: Context) -> dict[str, Any]:
    return {"scratch": dict(ctx.scratch), "params": dict(ctx.params)}


class TestReplacedState:
    def test_a_replaced_dictionary_is_recorded_with_its_removed_names(self) -> None:
        def fill(ctx: Context) -> None:
            ctx.scratch.update(old=1, kept=2)

        def replace(ctx: Context) -> None:
            ctx.scratch = {"kept": ctx.scratch["kept"], "new": 3}

        found = ends_the_same_wherever_it_is_cut_off(lambda: chain(fill, replace, read))
        assert found["scratch"] == {"kept": 2, "new": 3}

    def test_a_replaced_dictionary_keeps_its_identity_until_the_task_ends(self) -> None:
        def replace(ctx: Context) -> None:
            ctx.scratch = mine = {}
            mine["late"] = 1
            assert ctx.scratch is mine

        def change(ctx: Context) -> None:
            ctx.scratch["late"] += 1

        found = ends_the_same_wherever_it_is_cut_off(lambda: chain(replace, change, read))
        assert found["scratch"] == {"late": 2}

    def test_params_are_recorded_too(self) -> None:
        def replace(ctx: Context) -> None:
            ctx.params = {**ctx.params, "more": [1]}

        def change(more: list[int]) -> None:
            more.append(2)

        found = ends_the_same_wherever_it_is_cut_off(
            lambda: chain(replace, change, read), lambda: {"given": 0}
        )
        assert found["params"] == {"given": 0, "more": [1, 2]}

    def test_a_dictionary_of_another_type_stays_of_that_type(self) -> None:
        def replace(ctx: Context) -> None:
            ctx.scratch = defaultdict(list)

        def change(ctx: Context) -> None:
            ctx.scratch["found"].append(1)

        def change_again(ctx: Context) -> None:
            ctx.scratch["found"].append(2)

        def plain_again(ctx: Context) -> None:
            ctx.scratch = {**ctx.scratch, "end": True}

        make = lambda: chain(replace, change, change_again, plain_again, read)  # noqa: E731
        assert ends_the_same_wherever_it_is_cut_off(make)["scratch"] == {"found": [1, 2], "end": True}

    def test_a_replacement_that_is_not_a_dictionary_is_recorded(self) -> None:
        def replace(ctx: Context) -> None:
            ctx.scratch = UserDict(found=[])

        def change(ctx: Context) -> None:
            ctx.scratch["found"].append(1)

        def count(ctx: Context) -> list[int]:
            return list(ctx.scratch["found"])

        assert ends_the_same_wherever_it_is_cut_off(lambda: chain(replace, change, count)) == [1]

    def test_changes_of_a_parallel_task_to_a_replaced_dictionary_are_recorded(self) -> None:
        context, changes = Context(scratch={"old": 1}), ContextChanges()
        changes.attach(context)
        replaced, changed = threading.Event(), threading.Event()
        found: dict[str, Any] = {}

        def other() -> None:
            touched = changes.began({})
            replaced.wait(90)
            context.scratch["theirs"] = 2
            changed.set()
            found["other"] = changes.ended(touched)[0]

        thread = threading.Thread(target=other)
        touched = changes.began({})
        thread.start()
        context.scratch = mine = {"mine": 1}
        replaced.set()
        thread.join(90)
        mine["later"] = 3
        found["own"] = changes.ended(touched)[0]
        assert changed.is_set()
        assert found["other"][0]["scratch", "theirs"] == 2
        assert found["own"] == (
            {("scratch", "mine"): 1, ("scratch", "theirs"): 2, ("scratch", "later"): 3},
            [("scratch", "old")],
        )
        # Nobody executes: it is followed again.
        touched = changes.began({})
        context.scratch["mine"] = 5
        assert changes.ended(touched)[0] == ({("scratch", "mine"): 5}, [])


class TestSharedObjects:
    def test_a_param_that_is_an_input_under_another_name(self) -> None:
        def grow(items: list[str]) -> None:
            items.append("grown")

        make = lambda: chain(grow, read, grow={"items": "$ctx.params.orders"})  # noqa: E731
        found = ends_the_same_wherever_it_is_cut_off(make, lambda: {"orders": ["o1"], "other": 1})
        assert found["params"]["orders"] == ["o1", "grown"]

    def test_names_that_share_an_object_share_it_after_a_replay(self) -> None:
        def share(ctx: Context) -> None:
            ctx.scratch["x"] = ctx.scratch["y"] = []

        def change(ctx: Context) -> None:
            ctx.scratch["x"].append(1)

        def change_again(ctx: Context) -> None:
            ctx.scratch["y"].append(2)

        make = lambda: chain(share, change, change_again, read)  # noqa: E731
        assert ends_the_same_wherever_it_is_cut_off(make)["scratch"] == {"x": [1, 2], "y": [1, 2]}

    def test_a_value_that_is_a_part_of_another_one_is_restored_as_such(self) -> None:
        def take(ctx: Context) -> None:
            ctx.scratch["first"] = ctx.params["orders"][0]

        def change(ctx: Context) -> None:
            ctx.scratch["first"]["paid"] = True

        def change_from_the_other_side(ctx: Context) -> None:
            ctx.params["orders"][0]["sent"] = True

        make = lambda: chain(take, change, change_from_the_other_side, read)  # noqa: E731
        found = ends_the_same_wherever_it_is_cut_off(make, lambda: {"orders": [{"id": 1}]})
        assert (
            found["params"]["orders"]
            == [found["scratch"]["first"]]
            == [{"id": 1, "paid": True, "sent": True}]
        )

    def test_names_that_share_no_longer_are_recorded_separately(self) -> None:
        def share(ctx: Context) -> None:
            ctx.scratch["x"] = ctx.scratch["y"] = [0]

        def part(ctx: Context) -> None:
            ctx.scratch["y"] = [1]

        def change(ctx: Context) -> None:
            ctx.scratch["x"].append(2)

        def make() -> Flow:
            return chain(share, part, change, read)

        assert ends_the_same_wherever_it_is_cut_off(make)["scratch"] == {"x": [0, 2], "y": [1]}
        run = FlowUnderTest(make())
        run.execute()
        changed, _ = load_changes(run.written[2].changes)
        assert list(changed) == [("scratch", "x")]

    def test_sharing_is_transitive_and_only_through_mutable_objects(self) -> None:
        part: list[int] = []

        class Holder:
            def __init__(self, held: object) -> None:
                self.held = held

        values = {
            "a": {"deep": (part,)},
            "b": Holder([part]),
            "c": ("text", 1, None, frozenset({2})),
            "d": ("text", 1, None, frozenset({2})),
            "e": {},
        }
        assert groups_that_share(values) == [{"a", "b"}]
        endless: list[Any] = []
        endless.append(endless)
        assert groups_that_share({"x": endless, "y": [endless], "z": []}) == [{"x", "y"}]

    def test_groups_are_merged(self) -> None:
        one: list[int] = []
        other: list[int] = []
        values = {"a": [one], "b": [other], "alone": [[]], "c": (one, other)}
        assert groups_that_share(values) == [{"a", "b", "c"}]

    def test_comparing_values_calls_no_python_function_per_part(self) -> None:
        """The other tasks of the run wait meanwhile."""

        def calls_at_end(size: int) -> int:
            parts = {name: [{"number": number} for number in range(size)] for name in ("x", "y")}
            context, changes = Context(scratch=parts), ContextChanges()
            changes.attach(context)
            touched = changes.began({})
            assert context.scratch["x"] == context.scratch["y"]
            events: list[str] = []
            sys.setprofile(lambda frame, event, argument: events.append(event))
            try:
                changes.ended(touched)
            finally:
                sys.setprofile(None)
            return events.count("call")

        assert calls_at_end(500) == calls_at_end(5)


@pytest.mark.parametrize(
    "taken",
    [
        lambda scratch: {**scratch},
        dict,
        lambda scratch: scratch | {},
        lambda scratch: {} | scratch,
        lambda scratch: scratch.copy(),
        lambda scratch: dict(**scratch),
        lambda scratch: {name: scratch[name] for name in scratch},
    ],
)
def test_a_change_through_a_copy_of_the_dictionary_is_recorded(
    taken: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    def fill(ctx: Context) -> None:
        ctx.scratch["found"] = []

    def change(ctx: Context) -> None:
        taken(ctx.scratch)["found"].append(1)

    found = ends_the_same_wherever_it_is_cut_off(lambda: chain(fill, change, read))
    assert found["scratch"] == {"found": [1]}


@pytest.mark.parametrize("item", [lambda ctx: ctx.get_var("order"), lambda ctx: ctx.loop.item])
def test_a_change_of_a_loop_item_is_reported_as_not_journalled(
    item: Callable[[Context], dict[str, Any]],
) -> None:
    """It is a part of the sequence of the loop, which a replay cannot restore."""

    def mark(ctx: Context) -> None:
        item(ctx)["done"] = True

    def look(ctx: Context) -> None:
        assert item(ctx)["done"]

    marking, looking = (TaskWrapper(Task(func=each, name=each.__name__)) for each in (mark, look))
    flow = Flow("loop") >> (marking >> looking)["$ctx.params.orders as order"]
    outcome = FlowUnderTest(flow).execute({"orders": [{"id": 1}]})
    assert record(outcome, "mark")["not_journalled"] == "what it did to the item of its loop cannot be stored"
    assert "not_journalled" not in record(outcome, "look")


def test_attributes_assigned_to_the_context_are_reported_as_not_journalled() -> None:
    def assign(ctx: Context) -> None:
        ctx.remark = "kept"
        ctx.env["REGION"] = "eu"

    def plain() -> None: ...

    outcome = FlowUnderTest(chain(assign, plain)).execute()
    assert (
        record(outcome, "assign")["not_journalled"] == "what it did to ctx.env, ctx.remark cannot be stored"
    )
    assert "not_journalled" not in record(outcome, "plain")
