"""Which changes of the shared state are recorded for a task."""

import json
import pickle
import threading
from typing import Any

import pytest
from pyoco.core.context import Context

from pyoco_server.worker.engine.context_changes import Changes, ContextChanges
from tests.support.waiting import LIMIT_SEC


@pytest.fixture
def state(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Context, ContextChanges]:
    monkeypatch.chdir(tmp_path)
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
    hands = changes.began({})
    change(context)
    assert of(changes.ended(hands)[0]) == expected


def test_removed_names_are_recorded(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    hands = changes.began({})
    del context.scratch["text"]
    context.scratch.pop("old")
    assert changes.ended(hands)[0] == ({}, [("scratch", "text"), ("scratch", "old")])


def test_an_input_that_is_a_param_is_tracked(state: tuple[Context, ContextChanges]) -> None:
    context, changes = state
    inputs = {"p": context.params["p"]}
    hands = changes.began(inputs)
    inputs["p"].append(2)
    assert of(changes.ended(hands)[0]) == {"params.p": [1, 2]}


def test_changes_of_a_parallel_task_are_not_recorded(
    state: tuple[Context, ContextChanges],
) -> None:
    context, changes = state
    half_done, must_resume = threading.Event(), threading.Event()
    told: dict[str, Changes] = {}

    def writes_twice() -> None:
        hands = changes.began({})
        context.scratch["n"] = "half"
        half_done.set()
        must_resume.wait(LIMIT_SEC)
        context.scratch["n"] = "done"
        told["writes_twice"] = changes.ended(hands)[0]

    thread = threading.Thread(target=writes_twice)
    thread.start()
    half_done.wait(LIMIT_SEC)
    hands = changes.began({})
    context.scratch["mine"] = 1
    told["other"] = changes.ended(hands)[0]
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
    hands = changes.began({})
    context.scratch["lock"].acquire()
    assert changes.ended(hands) == (({}, []), ["scratch 'lock'"])


def test_the_tracked_state_behaves_like_a_dictionary(state: tuple[Context, ContextChanges]) -> None:
    scratch = state[0].scratch
    assert isinstance(scratch, dict)
    assert json.loads(json.dumps(scratch)) == {"old": {"a": 1}, "text": "x"}
    assert type(pickle.loads(pickle.dumps(scratch))) is dict
    assert scratch | {"z": 1} == {"old": {"a": 1}, "text": "x", "z": 1}
