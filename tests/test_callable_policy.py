"""Which modules `callable:` may name, before anything is imported and after."""

import functools
import operator
import os
import subprocess
from collections.abc import Callable

import pytest
from pyoco.core.models import Task
from pyoco.dsl.syntax import task

from pyoco_server.errors import ConfigError
from pyoco_server.worker.callable_policy import CallablePolicy, task_function
from pyoco_server.worker.flow_errors import CallableRefused


def own_function() -> str:
    return "own"


class OwnCallable:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


class TestBeforeTheImport:
    @pytest.mark.parametrize(
        ("patterns", "allowed"),
        [
            ("", ["myflows:f", "myflows.sub.deep:f", "requests:get"]),
            ("*", ["myflows:f", "myflows.sub:f"]),
            ("myflows.*, shared.tasks", ["myflows.etl:f", "myflows.etl.deep:f", "shared.tasks:f"]),
            ("myflows, team_?.flows", ["myflows:f", "team_a.flows:f"]),
            ("os", ["os:getcwd"]),
            ("os.*", ["os.path:join"]),
            ("*, json", ["json:dumps", "myflows:f"]),
            ("pyoco_server.*", ["pyoco_server.config:f"]),
        ],
    )
    def test_allowed(self, patterns: str, allowed: list[str]) -> None:
        policy = CallablePolicy.parse(patterns)
        for path in allowed:
            policy.check(path)

    @pytest.mark.parametrize(
        ("patterns", "refused"),
        [
            ("", ["os:system", "os.path:join", "builtins:eval", "subprocess:run", "importlib:import_module"]),
            ("", ["posix:system", "_posixsubprocess:fork_exec", "sys:exit", "ctypes.util:find_library"]),
            ("", ["pyoco_server:f", "pyoco_server.worker.flow_files:f", "__main__:f", "__mp_main__:f"]),
            ("*", ["os:system", "pyoco_server.config:f"]),
            ("o*", ["os:system"]),
            ("?s", ["os:system"]),
            ("[o]s", ["os:system"]),
            ("*.path", ["os.path:join"]),
            ("os.*", ["os:system", "posix:system"]),
            (
                "myflows.*, shared.tasks",
                ["myflows:f", "myflowsx.etl:f", "shared:f", "shared.tasks.deep:f", "other:f"],
            ),
            ("MyFlows", ["myflows:f"]),
        ],
    )
    def test_refused(self, patterns: str, refused: list[str]) -> None:
        policy = CallablePolicy.parse(patterns)
        for path in refused:
            with pytest.raises(CallableRefused):
                policy.check(path)

    def test_a_refusal_names_the_callable_the_rule_and_the_cure(self) -> None:
        with pytest.raises(CallableRefused) as caught:
            CallablePolicy().check("os:system")
        assert caught.value.module == "os"
        assert caught.value.detail == (
            "'os:system' is refused: 'os' is part of Python's standard library; "
            "to allow it, set PYOCO_CALLABLE_ALLOW=*,os on this worker"
        )
        with pytest.raises(CallableRefused) as caught:
            CallablePolicy.parse("a.*, b").check("c.d:f")
        assert caught.value.detail == (
            "'c.d:f' is refused: 'c.d' matches none of the patterns a.*, b; "
            "to allow it, set PYOCO_CALLABLE_ALLOW=a.*,b,c.d on this worker"
        )

    @pytest.mark.parametrize(
        ("patterns", "path"), [("", "os:system"), ("a.*, b", "c.d:f"), ("*", "pyoco_server.config:f")]
    )
    def test_the_cure_cures(self, patterns: str, path: str) -> None:
        with pytest.raises(CallableRefused) as caught:
            CallablePolicy.parse(patterns).check(path)
        setting = caught.value.detail.partition("PYOCO_CALLABLE_ALLOW=")[2].partition(" ")[0]
        cured = CallablePolicy.parse(setting)
        cured.check(path)
        cured.check("a.module:f")


class TestAfterTheImport:
    @pytest.mark.parametrize(
        "found",
        [
            subprocess.run,
            subprocess.Popen,
            os.system,
            eval,
            print,
            [].append,
            "text".join,
            os.environ.get,
            functools.partial(os.system, "ls"),
            functools.partial(functools.partial(os.system), "ls"),
            operator.itemgetter(1),
        ],
    )
    def test_what_comes_from_the_standard_library(self, found: Callable[..., object]) -> None:
        with pytest.raises(CallableRefused, match="PYOCO_CALLABLE_ALLOW"):
            CallablePolicy().check_origin("mytasks:run", found)

    @pytest.mark.parametrize(
        "found",
        [
            own_function,
            OwnCallable,
            OwnCallable(),
            OwnCallable().method,
            lambda: None,
            functools.partial(own_function),
            functools.lru_cache(own_function),
        ],
    )
    def test_what_comes_from_the_users_own_module(self, found: Callable[..., object]) -> None:
        CallablePolicy().check_origin("mytasks:run", found)
        CallablePolicy.parse("tests.*").check_origin("mytasks:run", found)
        with pytest.raises(CallableRefused, match=r"comes from 'tests\.test_callable_policy'"):
            CallablePolicy.parse("mytasks").check_origin("mytasks:run", found)

    def test_what_was_allowed_by_name(self) -> None:
        CallablePolicy.parse("mytasks, subprocess").check_origin("mytasks:run", subprocess.run)


class TestPatterns:
    @pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
    def test_none(self, text: str) -> None:
        assert CallablePolicy.parse(text) == CallablePolicy()

    def test_spaces_do_not_matter(self) -> None:
        assert CallablePolicy.parse(" a.* ,b,, c ").patterns == ("a.*", "b", "c")

    @pytest.mark.parametrize("text", ["mytasks:load", "a b", "a/b", "a, b;c"])
    def test_what_is_no_pattern(self, text: str) -> None:
        with pytest.raises(ConfigError, match="PYOCO_CALLABLE_ALLOW"):
            CallablePolicy.parse(text)


def test_the_function_is_taken_out_of_what_pyoco_made_of_it() -> None:
    assert task_function(own_function) is own_function
    assert task_function(task(own_function)) is own_function
    assert task_function(Task(func=own_function, name="a")) is own_function
    assert task_function(Task(func=task(own_function), name="a")) is own_function
    assert task_function("text") is None
    assert task_function(Task(func=None, name="a")) is None
