"""Keys and values of flow.yaml: accepted, or refused with their location."""

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.errors import InvalidRequest
from pyoco_server.runs.flow_yaml import CheckedFlow, TaskDeclaration, check_flow_yaml
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow
from tests.support.samples.flow_yaml import TASKS, each_parser, flow, problems_of, text_at, the_problem  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("each_parser")


class TestWhatIsTaken:
    def test_a_whole_file(self) -> None:
        checked = check_flow_yaml(
            b"""
version: 1
flow:
  graph: |
    load >> pipe(tidy)
      >> save
  defaults: {path: in.csv, limit: 10, ratio: 0.5, names: [a, b], nested: {on_error: null, deep: true}}
tasks:
  load:
    callable: etl.steps:load
    inputs: {path: $ctx.params.path, token: $env.TOKEN}
    outputs: [scratch.rows]
  clean: {use: cleaning/strict, inputs: {rows: $node.load.output.rows}}
  save: {callable: "etl.steps:save"}
  unused: {callable: "etl.steps:unused"}
pipes:
  tidy: "clean"
  unused: "load"
runtime:
  expose_env: [TOKEN]
"""
        )
        assert checked == CheckedFlow(
            graph="load >> pipe(tidy)\n  >> save\n",
            defaults={
                "path": "in.csv",
                "limit": 10,
                "ratio": 0.5,
                "names": ["a", "b"],
                "nested": {"on_error": None, "deep": True},
            },
            tasks={
                "load": TaskDeclaration(
                    callable="etl.steps:load",
                    inputs={"path": "$ctx.params.path", "token": "$env.TOKEN"},
                    outputs=("scratch.rows",),
                ),
                "save": TaskDeclaration(callable="etl.steps:save"),
                "clean": TaskDeclaration(use="cleaning/strict", inputs={"rows": "$node.load.output.rows"}),
            },
            pipes={"tidy": "clean"},
            expose_env=("TOKEN",),
        )

    @pytest.mark.parametrize(
        "graph",
        [
            "load",
            "load >> clean >> save",
            "# a comment\nload >> again: load",
            "switch(on=mode){fast: save; 'slow': clean >> save; 3: load; default: n: load}",
            "switch(on={{ $ctx.params.mode }}){x: 'load >> clean'; default: \"save\"}",
            "repeat(count=3){load >> clean} >> repeat(count='params.n', collect=last){load}",
            "foreach(over=items, item=i, index=n, collect=list){load >> load}",
            "until(cond='$ctx.scratch.n * 2 >= 10 % 3', max_iter=5){load} >> save",
        ],
    )
    def test_graphs(self, graph: str) -> None:
        assert check_flow_yaml(flow(graph).encode()).graph == graph

    def test_a_byte_order_mark_and_windows_line_ends(self) -> None:
        source = "\ufeff" + ("flow: {graph: load}" + TASKS).replace("\n", "\r\n")
        assert check_flow_yaml(source.encode()).graph == "load"

    def test_an_empty_section_counts_as_none(self) -> None:
        tasks = b"tasks: {load: {callable: m:f, inputs: , outputs: }}"
        checked = check_flow_yaml(b"flow: {graph: load, defaults: }\npipes:\nruntime:\n" + tasks)
        assert checked.defaults == {}
        assert checked.tasks == {"load": TaskDeclaration(callable="m:f")}

    def test_aliases_and_merge_keys_match_pyoco(self) -> None:
        source = """
flow:
  graph: &g load >> clean
  defaults: {shared: &s [1, 2], again: *s, text: *g}
tasks:
  load: &base {callable: m:f, inputs: {a: 1, b: 2}}
  clean: {<<: *base, inputs: {a: 3}}
"""
        checked = check_flow_yaml(source.encode())
        safe = yaml.safe_load(source)
        assert checked.defaults == safe["flow"]["defaults"]
        assert checked.tasks["clean"].callable == safe["tasks"]["clean"]["callable"]
        assert checked.tasks["clean"].inputs == safe["tasks"]["clean"]["inputs"]

    @settings(deadline=None, max_examples=60)
    @given(
        st.dictionaries(
            st.text(),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                max_leaves=10,
            ),
            max_size=4,
        )
    )
    def test_defaults_are_preserved(self, defaults: dict[str, Any]) -> None:
        source = yaml.safe_dump(
            {"flow": {"graph": "a", "defaults": defaults}, "tasks": {"a": {"callable": "m:f"}}}
        )
        assert check_flow_yaml(source.encode()).defaults == defaults

    @pytest.mark.parametrize(
        "number",
        [2**64, -(2**63) - 1, 10**100, 10**4300 - 1, -(10**4299) + 1, float("0." + "1" * 100)],
        ids=lambda number: f"{number:.3g}" if isinstance(number, float) else f"{len(str(number))} digits",
    )
    def test_numbers_of_post_runs_are_accepted(self, number: int | float) -> None:
        written = "0." + "1" * 100 if isinstance(number, float) else str(number)
        source = (
            f"flow: {{graph: a, defaults: {{n: {written}}}}}\n"
            f"tasks: {{a: {{callable: m:f, inputs: {{n: {written}}}}}}}\n"
        )
        checked = check_flow_yaml(source.encode())
        assert checked.defaults == checked.tasks["a"].inputs == {"n": number}
        assert msgspec.json.decode(msgspec.json.encode(checked.defaults)) == {"n": number}

    @pytest.mark.parametrize("written", ["9" * 4301, "-" + "9" * 4300])
    def test_numbers_refused_by_post_runs_are_refused(self, written: str) -> None:
        the_problem(f"flow: {{graph: load, defaults: {{n: {written}}}}}" + TASKS)
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(f'{{"n": {written}}}')


class TestYamlItself:
    @pytest.mark.parametrize(
        ("source", "line", "column", "words"),
        [
            ("flow: {graph: load\ntasks: {}", 2, 6, "not valid YAML"),
            ("flow:\n  graph: a: b", 2, 11, "mapping values are not allowed"),
            ("flow:\n\tgraph: load", 2, 1, "indent with spaces"),
            ("flow: *nowhere", 1, 7, "anchor"),
            ("", 1, 1, "empty"),
            ("# only a comment\n", 1, 1, "empty"),
            ("- flow", 1, 1, "must be a mapping"),
            ("just text", 1, 1, "must be a mapping"),
            ("flow: {graph: load}\n---\nflow: {}", 2, 1, "one document"),
            ("flow: {graph: load}\nx: a\x07b", 2, 5, "U+0007"),
            ("flow: !!python/object/apply:os.system [ls]", 1, 7, "python/object"),
            ("flow: !mine {graph: load}", 1, 7, "'!mine' is not allowed"),
            ("flow: {graph: !!binary aGk=}", 1, 15, "!!binary"),
            ("flow: &f {graph: *f}", 1, 18, "inside its own anchor"),
        ],
    )
    def test_an_invalid_file_is_refused(self, source: str, line: int, column: int, words: str) -> None:
        problem = the_problem(source)
        assert words in problem.message
        assert (problem.field, problem.line, problem.column) == ("workflow", line, column)

    def test_invalid_escapes_are_refused(self) -> None:
        for escape in (r"\uD800", r"\UFFFFFFFF"):
            assert (
                the_problem(f'flow: {{graph: load, defaults: {{x: "{escape}"}}}}{TASKS}').field == "workflow"
            )

    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_invalid_utf8_is_refused(self, mark: bytes) -> None:
        problem = the_problem(mark + "flow:\n  gräph: ".encode() + b"\xff\xfe")
        assert "UTF-8" in problem.message
        assert "0xff" in problem.message
        assert (problem.line, problem.column) == (2, 10)

    def test_a_duplicate_key_is_refused(self) -> None:
        source = "flow: {graph: load}\ntasks:\n  load: {callable: m:f}\n  load: {callable: m:g}\n"
        problem = the_problem(source)
        assert (problem.field, problem.line, problem.column) == ("tasks.load", 4, 3)
        assert "the first is on line 3" in problem.message

    def test_a_duplicate_key_inside_a_value_is_refused(self) -> None:
        problem = the_problem("flow: {graph: load, defaults: {a: {b: 1, b: 2}}}" + TASKS)
        assert problem.field == "flow.defaults.a.b"

    def test_an_invalid_merge_is_refused(self) -> None:
        problem = the_problem("flow: {graph: load, defaults: {<<: 5}}" + TASKS)
        assert problem.field == "flow.defaults.<<"


class TestKeysAndValues:
    def test_everything_is_reported_at_once_and_in_order(self) -> None:
        source = """version: 2
flow:
  graph: load >> svae
  default: {}
flows: {}
discovery: {modules: [x]}
runtim: {}
tasks:
  load: {callable: etl.steps.load, input: {}}
  save: {callable: "etl.steps:save", use: other}
  clean: {inputs: [1], outputs: scratch.x}
"""
        found = [(problem.field, problem.line, problem.column) for problem in problems_of(source)]
        assert found == [
            ("version", 1, 10),
            ("flow.graph", 3, 18),
            ("flow.default", 4, 3),
            ("flows", 5, 1),
            ("discovery", 6, 1),
            ("runtim", 7, 1),
            ("tasks.load.callable", 9, 20),
            ("tasks.load.input", 9, 36),
            ("tasks.save", 10, 43),
            ("tasks.clean.inputs", 11, 19),
            ("tasks.clean.outputs", 11, 33),
        ]

    @pytest.mark.parametrize(
        ("source", "field", "words"),
        [
            ("runtim: {}\nflow: {graph: load}", "runtim", "did you mean 'runtime'?"),
            ("zzz: 1\nflow: {graph: load}", "zzz", "the keys here are version, flow, tasks, pipes, runtime"),
            ("flows: []\nflow: {graph: load}", "flows", "one flow"),
            ("discovery: []\nflow: {graph: load}", "discovery", "PYOCO_DISCOVERY_MODULES"),
            ("version: '1'\nflow: {graph: load}", "version", "the number 1"),
            ("version: true\nflow: {graph: load}", "version", "the number 1"),
            ("version: [1]\nflow: {graph: load}", "version", "the number 1"),
            ("version: 1", "flow.graph", "is missing"),
            ("flow:", "flow.graph", "is missing"),
            ("flow: load", "flow", "must be a mapping, not text"),
            ("flow: {graph: ''}", "flow.graph", "must not be empty"),
            ("flow: {graph: }", "flow.graph", "must be text, not empty"),
            ("flow: {graph: [load]}", "flow.graph", "must be text, not a list"),
            ("flow: {graph: 5}", "flow.graph", "must be text, not a number; put it in quotes"),
            ("flow: {graph: load, defaults: [1]}", "flow.defaults", "must be a mapping, not a list"),
            (
                "flow: {graph: load, defaults: {d: 2024-01-31}}",
                "flow.defaults.d",
                "a date cannot be a value here",
            ),
            (
                "flow: {graph: load, defaults: {d: [{e: 2024-13-45}]}}",
                "flow.defaults.d[0].e",
                "put it in quotes",
            ),
            ("flow: {graph: load, defaults: {d: =}}", "flow.defaults.d", "put it in quotes"),
            ("flow: {graph: load, defaults: {d: .nan}}", "flow.defaults.d", "JSON"),
            ("flow: {graph: load, defaults: {d: -.inf}}", "flow.defaults.d", "JSON"),
            (f"flow: {{graph: load, defaults: {{d: {'9' * 4301}}}}}", "flow.defaults.d", "4300 characters"),
            (f"flow: {{graph: load, defaults: {{d: -{'9' * 4300}}}}}", "flow.defaults.d", "4300 characters"),
            (f"flow: {{graph: load, defaults: {{d: 0x{'f' * 4000}}}}}", "flow.defaults.d", "JSON"),
            (f"flow: {{graph: load, defaults: {{d: 1{':1' * 40}}}}}", "flow.defaults.d", "64 characters"),
            ("flow: {graph: load, defaults: {d: !!int x}}", "flow.defaults.d", "JSON"),
            ("flow: {graph: load, defaults: {d: !!bool x}}", "flow.defaults.d", "quotes"),
            ("flow: {graph: load, defaults: {yes: 1}}", "flow.defaults.yes", "put it in quotes"),
            ("flow: {graph: load, defaults: {? [a] : 1}}", "flow.defaults", "a key must be text, not a list"),
            (
                "flow: {graph: load, defaults: {a: {1: 2}}}",
                "flow.defaults.a.1",
                "a key must be text, not a number",
            ),
            ("flow: {graph: load}\npipes: [load]", "pipes", "must be a mapping"),
            ("flow: {graph: load}\npipes: {p: [load]}", "pipes.p", "must be text"),
            (
                "flow: {graph: load}\nruntime: {expose_env: TOKEN}",
                "runtime.expose_env",
                "must be a list of texts",
            ),
            ("flow: {graph: load}\nruntime: {expose_env: [1]}", "runtime.expose_env[0]", "must be text"),
            ("flow: {graph: load}\nruntime: {env: 1}", "runtime.env", "not known"),
        ],
    )
    def test_refused(self, source: str, field: str, words: str) -> None:
        problem = the_problem(source + TASKS)
        assert words in problem.message
        assert problem.field == field

    @pytest.mark.parametrize(
        ("task", "field", "words"),
        [
            ("etl.steps:load", "tasks.load", "must be a mapping, not text"),
            ("{retries: -1}", "tasks.load.retries", "must be a whole number from 0 to 1000"),
            ("{retries: 1.5}", "tasks.load.retries", "must be a whole number from 0 to 1000"),
            ("{retries: 1001}", "tasks.load.retries", "must be a whole number from 0 to 1000"),
            ("{retries: true}", "tasks.load.retries", "must be a whole number from 0 to 1000"),
            ("{retries: '3'}", "tasks.load.retries", "must be a whole number from 0 to 1000"),
            ("{timeout_sec: 0}", "tasks.load.timeout_sec", "must be a number of seconds above 0"),
            ("{timeout_sec: 1e9}", "tasks.load.timeout_sec", "must be a number of seconds above 0"),
            ("{timeout_sec: 30 s}", "tasks.load.timeout_sec", "must be a number of seconds above 0"),
            ("{timeout_sec: [1]}", "tasks.load.timeout_sec", "must be a number of seconds above 0"),
            ("{fail_policy: ignore}", "tasks.load.fail_policy", "must be 'stop' or 'isolate'"),
            ("{fail_policy: {a: 1}}", "tasks.load.fail_policy", "must be 'stop' or 'isolate'"),
            ("{trigger_policy: ANY}", "tasks.load.trigger_policy", "only a Python flow can have"),
            ("{retry: 3}", "tasks.load.retry", "did you mean 'retries'?"),
            ("{callable: etl.steps.load}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 'etl.steps:'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: ':load'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 'etl..steps:load'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: '.steps:load'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 'etl:steps:load'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 'etl.steps:a.b'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 'etl.steps:load()'}", "tasks.load.callable", "'package.module:function'"),
            ("{callable: 5}", "tasks.load.callable", "must be text"),
            ("{callable: m:f, use: other}", "tasks.load", "cannot both be given"),
            ("{use: ''}", "tasks.load.use", "must not be empty"),
            ("{callable: m:f, inputs: [1]}", "tasks.load.inputs", "must be a mapping"),
            ("{callable: m:f, inputs: {d: 2024-01-31}}", "tasks.load.inputs.d", "put it in quotes"),
            ("{callable: m:f, inputs: {d: $nodes.a.output}}", "tasks.load.inputs.d", "after '$' must come"),
            ("{callable: m:f, inputs: {d: $node.a}}", "tasks.load.inputs.d", "after '$' must come"),
            ("{callable: m:f, inputs: {d: $ctx.scratch.a}}", "tasks.load.inputs.d", "after '$' must come"),
            (
                "{callable: m:f, inputs: {d: $node.a.output.__init__.x}}",
                "tasks.load.inputs.d",
                "begins with '_'",
            ),
            (
                "{callable: m:f, inputs: {d: $node.a.output.rows._x}}",
                "tasks.load.inputs.d",
                "begins with '_'",
            ),
            ("{callable: m:f, inputs: {d: $ctx.params.__class__}}", "tasks.load.inputs.d", "begins with '_'"),
            (
                "{callable: m:f, outputs: scratch.a}",
                "tasks.load.outputs",
                "must be a list of texts, not text",
            ),
            ("{callable: m:f, outputs: [a, [b]]}", "tasks.load.outputs[1]", "must be text, not a list"),
            ("{callabel: m:f, use: x}", "tasks.load.callabel", "did you mean 'callable'?"),
        ],
    )
    def test_refused_in_a_task(self, task: str, field: str, words: str) -> None:
        problem = the_problem(f"flow: {{graph: load}}\ntasks:\n  load: {task}\n")
        assert words in problem.message
        assert problem.field == field
        assert problem.line == 3


class TestUse:
    def test_a_task_inherits_from_what_it_uses(self) -> None:
        checked = check_flow_yaml(
            b"""
flow: {graph: again}
tasks:
  base: {callable: m:f, inputs: {a: 1, b: 1}, outputs: [scratch.x]}
  middle: {use: base, inputs: {b: 2, c: 2}}
  again: {use: middle, inputs: {c: 3}, outputs: [scratch.y]}
"""
        )
        assert checked.tasks == {
            "again": TaskDeclaration(
                callable="m:f", inputs={"a": 1, "b": 2, "c": 3}, outputs=("scratch.x", "scratch.y")
            )
        }

    def test_a_callable_may_be_declared_later(self) -> None:
        checked = check_flow_yaml(b"flow: {graph: a}\ntasks: {a: {use: b}, b: {callable: m:f}}")
        assert checked.tasks == {"a": TaskDeclaration(callable="m:f")}

    def test_a_plugin_task_may_keep_its_name(self) -> None:
        checked = check_flow_yaml(b"flow: {graph: add >> b}\ntasks: {add: {use: add}, b: {use: add}}")
        assert checked.tasks == {"add": TaskDeclaration(use="add"), "b": TaskDeclaration(use="add")}

    def test_circular_use_is_rejected(self) -> None:
        problem = the_problem("flow: {graph: a}\ntasks: {a: {use: b}, b: {use: c}, c: {use: a}}")
        assert "a -> b -> c -> a" in problem.message
        assert problem.field == "tasks.c.use"

    def test_an_alias_that_is_declared_later_is_unknown_to_pyoco(self) -> None:
        source = "flow: {graph: a}\ntasks:\n  a: {use: b}\n  b: {use: plugin/task}\n"
        problem = the_problem(source)
        assert "must be declared before" in problem.message
        assert (problem.field, text_at(source, problem)) == ("tasks.a.use", "b}")

    def test_a_long_chain_of_uses_is_rejected(self) -> None:
        tasks = "".join(f"  t{n}: {{use: t{n - 1}}}\n" for n in range(1, 20))
        problem = the_problem(f"flow: {{graph: t19}}\ntasks:\n  t0: {{callable: m:f}}\n{tasks}")
        assert "more than 16" in problem.message

    def test_circular_use_outside_the_graph_is_ignored(self) -> None:
        source = b"flow: {graph: a}\ntasks: {a: {callable: m:f}, b: {use: c}, c: {use: b}}"
        assert list(check_flow_yaml(source).tasks) == ["a"]


class TestTasksOfTheWorker:
    @pytest.mark.parametrize("tasks", ["", "tasks: {load: {}, save: {}}", "tasks: {load: , save: }"])
    def test_tasks_need_no_declaration(self, tasks: str) -> None:
        checked = check_flow_yaml(f"flow: {{graph: load >> save}}\n{tasks}".encode())
        assert checked.tasks == {"load": TaskDeclaration(use="load"), "save": TaskDeclaration(use="save")}

    def test_a_task_with_inputs_only_is_that_of_the_worker(self) -> None:
        checked = check_flow_yaml(
            b"flow: {graph: load >> again}\ntasks: {load: {inputs: {x: 1}}, again: {use: load}}"
        )
        assert set(checked.tasks) == {"load", "again"}
        assert all(task == TaskDeclaration(use="load", inputs={"x": 1}) for task in checked.tasks.values())

    def test_a_name_beside_declared_ones_is_that_of_the_worker(self) -> None:
        checked = check_flow_yaml(b"flow: {graph: load >> notify}\ntasks: {load: {callable: m:f}}")
        assert checked.tasks["notify"] == TaskDeclaration(use="notify")


class TestOptions:
    def test_a_task_inherits_those_it_does_not_give(self) -> None:
        checked = check_flow_yaml(
            b"""
flow: {graph: again}
tasks:
  base: {callable: m:f, retries: 3, timeout_sec: 2.5, fail_policy: isolate}
  again: {use: base, retries: 0}
"""
        )
        assert checked.tasks["again"].options == {"retries": 0, "timeout_sec": 2.5, "fail_policy": "isolate"}

    @pytest.mark.parametrize("graph", ["repeat(count=2){load}", "switch(on=a){x: load}"])
    def test_isolate_is_refused_where_it_has_no_effect(self, graph: str) -> None:
        source = f"flow:\n  graph: '{graph}'\ntasks:\n  load: {{callable: m:f, fail_policy: isolate}}\n"
        problem = the_problem(source)
        assert (problem.field, text_at(source, problem)) == ("tasks.load.fail_policy", "isolate}")
        assert "loops or branches" in problem.message


@pytest.mark.parametrize(
    "source",
    [
        "flow:\n  graph: switch(on=mode){fast: load; default: save}\n",
        "flow: {graph: switch(on=mode){fast: load; default: save}}\n",
        "flow: {graph: load}\npipes:\n  twice: repeat(count=2){ polish: load }\n",
        "flow:\n  graph: polish: load\n",
    ],
)
def test_a_graph_that_is_not_yaml_is_refused_with_the_cure(source: str) -> None:
    problem = the_problem(source + TASKS)
    assert problem.message.endswith("; put the graph in quotes, or on lines of its own below 'graph: |'")


def test_the_time_limit_of_a_question_is_refused_with_the_cure() -> None:
    source = "flow: {graph: ask}\ntasks:\n  ask: {use: pyoco/human, inputs: {message: Pay}, timeout_sec: 5}\n"
    with pytest.raises(InvalidRequest) as caught:
        check_submitted_flow(source.encode())
    [problem] = caught.value.problems
    assert (problem.field, problem.line) == ("tasks.ask.timeout_sec", 3)
    assert "'timeout_ms'" in problem.message
