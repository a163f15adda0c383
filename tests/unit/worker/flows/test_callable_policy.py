"""Which modules `callable:` may name, before anything is imported and after."""

import functools
import operator
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from pydantic import TypeAdapter
from pyoco.core.models import Task
from pyoco.dsl.syntax import task

from pyoco_server.errors import ConfigError
from pyoco_server.worker.flows import callable_policy
from pyoco_server.worker.flows.callable_policy import CallablePolicy, CallableRefused, task_function
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.support.modules import ModuleFolder, importable_folder


def own_function() -> str:
    return "own"


class OwnCallable:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


class TestModuleCheck:
    @pytest.mark.parametrize(
        ("patterns", "allowed"),
        [
            ("", ["myflows:f", "myflows.sub.deep:f", "tests.flows.basics:f", "pytest:main"]),
            ("*", ["myflows:f", "myflows.sub:f"]),
            ("myflows.*, shared.tasks", ["myflows.etl:f", "myflows.etl.deep:f", "shared.tasks:f"]),
            ("myflows, team_?.flows", ["myflows:f", "team_a.flows:f"]),
            ("os", ["os:getcwd"]),
            ("os.*", ["os.path:join"]),
            ("*, json", ["json:dumps", "myflows:f"]),
            ("pyoco_server.*", ["pyoco_server.config:f"]),
            ("*, yaml", ["yaml:safe_load", "myflows:f"]),
            ("*, requests, test.*", ["requests:get", "test.support:f", "myflows:f"]),
            ("httpx.*", ["httpx.sub:f"]),
        ],
    )
    def test_allowed(self, patterns: str, allowed: list[str]) -> None:
        policy = CallablePolicy.parse(patterns)
        refused = []
        for path in allowed:
            try:
                policy.check(path)
            except CallableRefused as why:
                refused.append(str(why))
        assert refused == []

    def test_the_distutils_of_setuptools_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python 3.12 has none of its own, and `distutils.spawn` starts any program."""
        monkeypatch.setattr(callable_policy, "is_standard_library", lambda _: False)
        with pytest.raises(CallableRefused, match="installed with the server"):
            CallablePolicy().check("distutils.spawn:spawn")

    @pytest.mark.parametrize(
        ("patterns", "refused"),
        [
            ("", ["os:system", "os.path:join", "builtins:eval", "subprocess:run", "importlib:import_module"]),
            ("", ["posix:system", "_posixsubprocess:fork_exec", "sys:exit", "ctypes.util:find_library"]),
            ("", ["pyoco_server:f", "pyoco_server.worker.flows.flow_files:f", "__main__:f", "__mp_main__:f"]),
            ("", ["yaml:unsafe_load", "_yaml:f", "pyoco.core.engine:f", "httpx:get", "pydantic.main:f"]),
            ("", ["pip:main", "pip._internal:main", "setuptools:setup", "pkg_resources:f", "wheel.cli:main"]),
            ("", ["_distutils_hack:f", "click:echo", "pycparser:preprocess_file", "requests:get"]),
            ("*", ["os:system", "pyoco_server.config:f", "yaml:unsafe_load", "pip:main"]),
            ("y*", ["yaml:unsafe_load"]),
            ("*.main", ["pip.main:f"]),
            ("yaml.*", ["yaml:unsafe_load", "_yaml:f"]),
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

    def test_a_refusal_names_the_callable_the_rule_and_the_remedy(self) -> None:
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

    def test_a_refusal_of_a_dependency_of_the_server(self) -> None:
        with pytest.raises(CallableRefused) as caught:
            CallablePolicy().check("yaml:unsafe_load")
        assert caught.value.detail == (
            "'yaml:unsafe_load' is refused: 'yaml' is installed with the server; "
            "to allow it, set PYOCO_CALLABLE_ALLOW=*,yaml on this worker"
        )

    @pytest.mark.parametrize(
        ("patterns", "path"),
        [
            ("", "os:system"),
            ("", "yaml:unsafe_load"),
            ("*, yaml.*", "yaml:load"),
            ("a.*, b", "c.d:f"),
            ("*", "pyoco_server.config:f"),
        ],
    )
    def test_the_remedy_works(self, patterns: str, path: str) -> None:
        with pytest.raises(CallableRefused) as caught:
            CallablePolicy.parse(patterns).check(path)
        setting = caught.value.detail.partition("PYOCO_CALLABLE_ALLOW=")[2].partition(" ")[0]
        cured = CallablePolicy.parse(setting)
        cured.check(path)
        cured.check("a.module:f")


class TestOriginCheck:
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
    def test_objects_of_the_standard_library_are_refused(self, found: Callable[..., object]) -> None:
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
    def test_objects_of_the_users_module_are_allowed(self, found: Callable[..., object]) -> None:
        CallablePolicy().check_origin("mytasks:run", found)
        CallablePolicy.parse("tests.*").check_origin("mytasks:run", found)
        with pytest.raises(
            CallableRefused, match=r"comes from 'tests\.unit\.worker\.flows\.test_callable_policy'"
        ):
            CallablePolicy.parse("mytasks").check_origin("mytasks:run", found)

    @pytest.mark.parametrize(
        "found",
        [
            yaml.unsafe_load,
            functools.partial(yaml.unsafe_load, "a"),
            yaml.SafeLoader,
            yaml.SafeLoader("a").get_data,
            msgspec.json.Decoder(),
            TypeAdapter(int).validate_python,
        ],
    )
    def test_objects_of_dependencies_are_refused(self, found: Callable[..., object]) -> None:
        for patterns in ("", "*", "mytasks"):
            with pytest.raises(CallableRefused, match=r"is installed with the server; .*ALLOW"):
                CallablePolicy.parse(patterns).check_origin("mytasks:run", found)

    def test_objects_of_a_named_package_are_allowed(self) -> None:
        CallablePolicy.parse("mytasks, yaml").check_origin("mytasks:run", yaml.unsafe_load)
        CallablePolicy.parse("mytasks, subprocess").check_origin("mytasks:run", subprocess.run)


class TestFlows:
    @pytest.fixture
    def modules(self, tmp_path: Path) -> Iterator[ModuleFolder]:
        with importable_folder(tmp_path / "modules") as folder:
            yield folder

    def test_a_file_cannot_run_a_command_with_yaml(self, modules: ModuleFolder) -> None:
        modules.write("mytasks.py", "from yaml import unsafe_load\n")
        for path in ("yaml:unsafe_load", "mytasks:unsafe_load"):
            source = (
                "flow: {graph: a}\n"
                f"tasks: {{a: {{callable: '{path}', "
                "inputs: {stream: '!!python/object/apply:os.system [exit]'}}}\n"
            )
            with pytest.raises(CallableRefused, match="'yaml' is installed with the server"):
                build_yaml_flow(source.encode(), "nightly", CallablePolicy())

    def test_a_plugin_may_offer_an_object_of_a_dependency(self, modules: ModuleFolder) -> None:
        register = "def register(registry): registry.register_callable(safe_load, name='demo/parse')\n"
        modules.plugin("demo", "demo_tasks", "from yaml import safe_load\n" + register)
        source = b"flow: {graph: a}\ntasks: {a: {use: demo/parse, inputs: {stream: '[1]'}}}\n"
        flow, _ = build_yaml_flow(source, "nightly", CallablePolicy.parse("mytasks"))
        (bound,) = flow.tasks
        assert task_function(bound) is yaml.safe_load


class TestPatterns:
    @pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
    def test_none(self, text: str) -> None:
        assert CallablePolicy.parse(text) == CallablePolicy()

    def test_spaces_do_not_matter(self) -> None:
        assert CallablePolicy.parse(" a.* ,b,, c ").patterns == ("a.*", "b", "c")

    @pytest.mark.parametrize("text", ["mytasks:load", "a b", "a/b", "a, b;c"])
    def test_an_invalid_pattern_is_rejected(self, text: str) -> None:
        with pytest.raises(ConfigError, match="PYOCO_CALLABLE_ALLOW"):
            CallablePolicy.parse(text)


def test_the_function_of_a_pyoco_task_is_found() -> None:
    assert task_function(own_function) is own_function
    assert task_function(task(own_function)) is own_function
    assert task_function(Task(func=own_function, name="a")) is own_function
    assert task_function(Task(func=task(own_function), name="a")) is own_function
    assert task_function("text") is None
    assert task_function(Task(func=None, name="a")) is None
