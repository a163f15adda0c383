"""Hostile flow.yaml files: the limits hold, and the result is a flow or InvalidRequest."""

import json

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyoco_server.errors import InvalidRequest
from pyoco_server.runs.flow_yaml import CheckedFlow, check_flow_yaml
from pyoco_server.runs.flow_yaml.yaml_problems import MAX_REPORTED
from tests.support.samples.flow_yaml import TASKS, each_parser, flow, problems_of, the_problem  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("each_parser")

thorough = settings(deadline=None, max_examples=200)


class TestLimits:
    def test_multiplying_aliases_are_refused(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
        assert "aliases may not expand" in the_problem("\n".join(lines)).message

    def test_aliases_of_one_long_text(self) -> None:
        source = f"flow: {{defaults: {{a: &a {'x' * 100_000}, b: [{', '.join(['*a'] * 11)}]}}}}"
        assert "1000000 characters" in the_problem(source).message

    @pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
    def test_deep_nesting_is_refused(self, opening: str) -> None:
        assert "levels deep" in the_problem(opening * 50_000).message

    def test_deep_nesting_by_aliases_is_refused(self) -> None:
        lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 40)]
        assert "levels deep" in the_problem("\n".join(lines)).message

    def test_an_alias_counts_with_its_depth(self) -> None:
        """Below flow.defaults, which are three levels of the 32."""
        for levels, taken in ((29, True), (30, False)):
            for value in ("[1]", "*a"):
                source = "flow: {graph: load, defaults: {a: &a [1], b: " + "[" * (levels - 1)
                source += value + "]" * (levels - 1) + "}}" + TASKS
                if taken:
                    assert check_flow_yaml(source.encode()).defaults["a"] == [1]
                else:
                    assert "levels deep" in the_problem(source).message

    def test_a_number_that_takes_long_to_read(self) -> None:
        problem = the_problem(f"flow: {{graph: load, defaults: {{n: 1{':1' * 50_000}}}}}" + TASKS)
        assert problem.field == "flow.defaults.n"
        assert len(str(problem)) < 300

    def test_long_names_give_a_short_response(self) -> None:
        source = f"{'k' * 50_000}: 1\nflow:\n  graph: {'n' * 50_000}\n" + TASKS
        assert len(str(InvalidRequest(problems=problems_of(source)))) < 2_000

    def test_the_first_problems_are_enough(self) -> None:
        assert len(problems_of("".join(f"k{n}: 1\n" for n in range(500)))) == MAX_REPORTED

    def test_a_graph_that_is_nested_too_deeply(self) -> None:
        for depth in (33, 3_000):
            graph = "repeat(count=1){" * depth + "load" + "}" * depth
            assert "nested" in the_problem(flow(graph)).message

    def test_nesting_by_pipes(self) -> None:
        pipes = {f"p{n}": f"repeat(count=1){{pipe(p{n + 1})}}" for n in range(40)} | {"p40": "load"}
        assert "nested" in the_problem(flow("pipe(p0)", pipes=pipes)).message
        chain = {f"p{n}": f"pipe(p{n + 1})" for n in range(140)} | {"p140": "load"}
        assert "nested more than 128" in the_problem(flow("pipe(p0)", pipes=chain)).message

    def test_multiplying_pipes_are_refused(self) -> None:
        pipes = {f"p{n}": f"pipe(p{n + 1}) >> pipe(p{n + 1})" for n in range(30)} | {"p30": "load"}
        assert "expanded" in the_problem(flow("pipe(p0)", pipes=pipes)).message

    def test_more_terms_than_pyoco_accepts(self) -> None:
        problem = the_problem(flow(" >> ".join(f"n{n}: load" for n in range(5_000))))
        assert "4096" in problem.message
        assert problem.field == "flow.graph"

    @pytest.mark.parametrize("inner", ["(" * 230 + "1" + ")" * 230, "-" * 5_000 + "1", "1\0"])
    def test_expressions_that_overflow_the_python_parser(self, inner: str) -> None:
        problem = the_problem(flow(f'load >> until(cond="$ctx.a + {inner}"){{load}}'))
        assert problem.field == "flow.graph"
        assert "cond=" in problem.message

    def test_more_arguments_than_can_be_checked(self) -> None:
        graph = " >> ".join(f"repeat(count={n}){{load}}" for n in range(1_001))
        assert "different arguments" in the_problem(flow(graph)).message


VALID = flow(
    "load >> switch(on=mode){a: 'clean'; default: repeat(count=2){n: save}} >> pipe(p)",
    pipes={"p": "foreach(over=xs, item=x){clean}"},
    version=1,
    runtime={"expose_env": ["HOME"]},
)
BLANKS = ["\n", "\n  ", "\t", " "]
YAML_WORDS = (
    "flow: graph: tasks: pipes: - : &a *a << [ ] { } | > ' \" # ! !!str !!int --- ... ? 2024-01-01 \\u a 1"
)
GRAPH_WORDS = (
    "load clean pipe(p) pipe( switch(on=a){ repeat(count=2){ foreach(over=xs){ until(cond=a){ } ) >> : ; , = "
    "x: default: ' \" \\ {{ }} $ctx.a ² 999999999999999999999999 # **"
)
YAML_PIECES = st.sampled_from([*YAML_WORDS.split(), *BLANKS])
GRAPH_PIECES = st.sampled_from([*GRAPH_WORDS.split(), *BLANKS])


def test_the_file_that_is_changed_is_valid() -> None:
    assert check_flow_yaml(VALID.encode()).pipes == {"p": "foreach(over=xs, item=x){clean}"}


class TestNothingElseComesOut:
    """Whatever the bytes are: a flow that can be run, or InvalidRequest with a place."""

    def assert_answered(self, source: bytes) -> None:
        answer = self.answer(source)
        if isinstance(answer, CheckedFlow):
            assert answer.tasks
            inputs = [task.inputs for task in answer.tasks.values()]
            assert json.dumps([answer.defaults, inputs], allow_nan=False).isascii()
        else:
            assert answer.problems
            assert all(problem.line and problem.column and problem.message for problem in answer.problems)
            assert str(answer).encode()

    def answer(self, source: bytes) -> CheckedFlow | InvalidRequest:
        try:
            return check_flow_yaml(source)
        except InvalidRequest as exc:
            return exc

    @thorough
    @given(st.binary(max_size=200))
    @example(b"\xef\xbb\xbf")
    @example(b"=")
    @example(b"? ")
    @example(b"<<: *a")
    def test_bytes(self, source: bytes) -> None:
        self.assert_answered(source)

    @thorough
    @given(st.text(max_size=200))
    def test_texts(self, source: str) -> None:
        self.assert_answered(source.encode())

    @thorough
    @given(st.lists(YAML_PIECES, max_size=40).map("".join))
    def test_pieces_of_yaml(self, source: str) -> None:
        self.assert_answered(source.encode())

    @thorough
    @given(st.integers(0, len(VALID)), st.integers(0, 30), st.text(max_size=8) | YAML_PIECES | GRAPH_PIECES)
    def test_a_valid_file_with_a_change(self, at: int, removed: int, inserted: str) -> None:
        self.assert_answered((VALID[:at] + inserted + VALID[at + removed :]).encode())

    @thorough
    @given(st.lists(GRAPH_PIECES, max_size=30).map("".join), st.sampled_from([None, "'", '"', "|", ">"]))
    def test_pieces_of_graphs(self, graph: str, style: str | None) -> None:
        document = {"flow": {"graph": graph}, "pipes": {"p": graph}, "tasks": {"load": {"callable": "m:f"}}}
        self.assert_answered(yaml.safe_dump(document, default_style=style, allow_unicode=True).encode())
