"""Problems of the graph of a flow.yaml are reported with their location."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.runs.flow_yaml import check_flow_yaml
from tests.support.samples.flow_yaml import TASKS, each_parser, flow, problems_of, text_at, the_problem  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("each_parser")


class TestGraph:
    @pytest.mark.parametrize(
        ("graph", "pointed", "words"),
        [
            ("load >> svae", "svae", "there is no task 'svae'; did you mean 'save'?"),
            ("load >> n: svae", "svae", "did you mean 'save'?"),
            ("load >> laod", "laod", "For a task of the worker, add 'laod: {}' to 'tasks'"),
            ("load >> tidy", "tidy", "write pipe(tidy)"),
            ("load >> pipe(tdiy)", "tdiy", "did you mean 'tidy'?"),
            ('load >> pipe("tdiy")', '"tdiy"', "did you mean 'tidy'?"),
            ("switch(on=a){x: svae; default: load}", "svae", "no task 'svae'"),
            ("switch(on=a){svae: n: svae; load: load}", "svae; load", "no task 'svae'"),
            ("switch(on=a){x: 'load >> \"'}", "\"'}", "unterminated string"),
            ("switch(on=a){x: 'load >> svae'}", "svae'", "no task 'svae'"),
            ('switch(on=a){x: "switch(on=b){y: \\"load >> svae\\"}"}', 'svae\\"}"', "no task 'svae'"),
            ("switch(on=a){x: 'load >> >>'}", ">>'}", "expected term"),
            ("switch(on=a){x: load; x: save}", "x: save", "the case 'x' is there twice"),
            ("switch(on=a){1: load; '1': save}", "'1': save", "the case '1' is there twice"),
            (
                "switch(on=a){default: load; default: save}",
                "default: save",
                "the case 'default' is there twice",
            ),
            ("switch(on=a){}", "switch", "switch must define at least one case"),
            ("switch(on=a, over=b){x: load}", "over", "switch() has no argument 'over'"),
            ("foreach(over=a, itme=b){load}", "itme", "did you mean 'item'?"),
            ("repeat(count=1, count=2){load}", "count=2", "is there twice"),
            ("repeat(cuont=1){load}", "{", "requires 'count='"),
            ("repaet(count=1){load}", "repaet", "did you mean 'repeat'?"),
            ("repeat(count=1, collect=lst){load}", "lst", "unsupported collect mode 'lst'"),
            ("until(cond=a, max_iter=0){load}", "0", "max_iter must be a positive integer"),
            ("until(cond=a, max_iter=x){load}", "x", "max_iter must be a positive integer"),
            ("foreach(over=a, item='1x'){load}", "'1x'", "item must be an identifier"),
            ("foreach(over='[1, 2]'){load}", "'[1, 2]'", "unsupported expression"),
            ("until(cond='$ctx.a > len($ctx.b)'){load}", "'$ctx.a", "only $ctx/$env references"),
            ("until(cond='$ctx.a >'){load}", "'$ctx.a", "invalid syntax"),
            ("repeat(count={{ }}){load}", "{{", "cannot be empty"),
            ("load > save", "> save", "use '>>' only"),
            ("load save", "save", "expected '>>' or the end but got a name"),
            ("load >> ", "", "expected term"),
            ("load & save", "& save", "Python flow only"),
            ("load >> my-task", "-task", "letters, digits and '_'"),
            ("repeat(count=1){}", "}", "a task is missing before '}'"),
            ("n: load >> n: save", "save", "two nodes are called 'n'"),
            ("save: load >> save", "save", "two nodes are called 'save'"),
            ("load >> save >> load", "load", "would wait for itself"),
            ("pipe(tidy) >> pipe(tidy)", "clean", "would wait for itself"),
        ],
    )
    def test_problems_have_their_location(self, graph: str, pointed: str, words: str) -> None:
        source = f"flow:\n  graph: |\n    {graph}\npipes:\n  tidy: clean\n{TASKS}"
        problem = the_problem(source)
        assert words.lower() in problem.message.lower()
        assert problem.field == ("pipes.tidy" if pointed == "clean" else "flow.graph")
        assert text_at(source, problem).startswith(pointed)

    @pytest.mark.parametrize(
        "expression",
        [
            "$ctx.params.a ** 2",
            "2 ** 100 > $ctx.params.a",
            "$ctx.params.n * 'x'",
            "('a' + 'b') * $ctx.params.n == 'ab'",
            "($ctx.params.a or 'b') * 9",
            "b'x' * $ctx.params.n",
            "'%999999999d' % $ctx.params.n",
        ],
    )
    def test_operators_without_a_bound(self, expression: str) -> None:
        for graph in (
            f'until(cond="{expression}"){{load}}',
            f"repeat(count={{{{ {expression} }}}}){{load}}",
            f'switch(on="{expression}"){{x: load}}',
            f'load >> foreach(over="{expression}"){{load}}',
        ):
            assert "no bound" in the_problem(flow(graph)).message

    @pytest.mark.parametrize(
        ("expression", "part"),
        [
            ("$ctx.loop.__init__.__globals__", "__init__"),
            ("$ctx.loop.__init__.__globals__.sys.modules", "__init__"),
            ("$ctx.results.load.__class__ == 1", "__class__"),
            ("1 == $ctx.results.load.rows._private", "_private"),
            ("not ($ctx.params.a or -$ctx.params.b.__len__)", "__len__"),
            ("$ctx.__class__", "__class__"),
            ("$ctx._x", "_x"),
        ],
    )
    def test_paths_out_of_the_data_of_the_run(self, expression: str, part: str) -> None:
        for graph in (
            f'until(cond="{expression}"){{load}}',
            f"repeat(count={{{{ {expression} }}}}){{load}}",
            f'switch(on="{expression}"){{x: load}}',
            f'load >> foreach(over="{expression}"){{load}}',
        ):
            problem = the_problem(flow(graph))
            assert problem.field == "flow.graph"
            assert f"'{part}' begins with '_'" in problem.message
            assert "name a public field" in problem.message
            assert expression[:20] in str(problem.value)

    def test_an_environment_variable_may_begin_with_an_underscore(self) -> None:
        assert check_flow_yaml(flow('until(cond="$env._X == 1"){load}').encode())

    def test_operators_with_a_bound(self) -> None:
        expression = "$ctx.params.n * 3 % 2 == 1 and ($ctx.params.a == 'x') * 1 > 0"
        assert check_flow_yaml(flow(f'until(cond="{expression}"){{load}}').encode())

    def test_circular_pipes_are_rejected(self) -> None:
        problem = the_problem(flow("pipe(a)", pipes={"a": "load >> pipe(b)", "b": "pipe(a)"}))
        assert "a -> b -> a" in problem.message
        assert problem.field == "pipes.b"

    def test_a_problem_in_a_pipe_is_found_in_the_pipe(self) -> None:
        source = f"pipes:\n  tidy: >-\n    clean\n    >> svae\nflow: {{graph: pipe(tidy)}}{TASKS}"
        problem = the_problem(source)
        assert problem.field == "pipes.tidy"
        assert text_at(source, problem) == "svae"

    def test_unused_pipes_are_not_checked(self) -> None:
        assert check_flow_yaml(flow("load", pipes={"broken": "((("}).encode()).pipes == {}


class TestPlaces:
    """A position in the decoded graph leads back to the place in the file, in every way of writing it."""

    @pytest.mark.parametrize(
        "written",
        [
            "load >> svae",
            "load\n    >> svae\n    >> save",
            "'load >> svae'",
            "'switch(on=''x''){a: load;\n\n    b: svae}'",
            "'''x''' # not a graph, see below",
            '"load >> svae"',
            r'"switch(on=\"x\"){\n\ta: load;\x20\u0020b: svae}"',
            '"load \\\n     >> svae"',
            '"load\\n>> \\\n    \\ svae"',
            "|\n    load\n      >> svae",
            "|2-  # with an indentation of its own\n     load >> svae",
            "|+\n\n    # svae in a comment\n    load >>\n\n    svae\n\n",
            ">\n    load >>\n    svae",
            ">-\n    load\n\n      >>\n\n    svae\n    >> save",
            "&anchor load >> svae",
            "&anchor |\n    load >> svae",
            "!!str &anchor 'load >> svae'",
            '&anchor # a "comment" with \\xZZ\n    "load >> svae"',
            "'日本語: load >> svae'",
        ],
    )
    def test_locations_are_right_in_every_scalar_style(self, written: str) -> None:
        if "not a graph" in written:
            source = f"flow:\n  graph: {written}\n{TASKS}"
            assert text_at(source, the_problem(source)).startswith("''x")
            return
        source = f"flow:\n  graph: {written}\n{TASKS}"
        problem = next(problem for problem in problems_of(source) if problem.value == "'svae'")
        assert text_at(source, problem).startswith("svae")

    def test_locations_are_right_with_an_alias(self) -> None:
        source = f"pipes: {{p: &g load >> svae}}\nflow: {{graph: *g}}\n{TASKS}"
        assert text_at(source, the_problem(source)).startswith("svae")

    @settings(deadline=None)
    @given(
        names=st.lists(st.sampled_from(["load", "clean", "s1: save", "pipe(p)", "{"]), max_size=12),
        at=st.integers(0, 12),
        glue=st.lists(
            st.sampled_from([" >> ", "\n>> ", " >>\n\n  ", "\t>> # note\n"]), min_size=14, max_size=14
        ),
        style=st.sampled_from([None, "'", '"', "|", ">"]),
        width=st.integers(10, 60),
    )
    def test_locations_are_right_for_any_pyyaml_output(
        self, names: list[str], at: int, glue: list[str], style: str | None, width: int
    ) -> None:
        terms = ["repeat(count=2){load}" if name == "{" else name for name in names]
        terms.insert(at, "laod")
        graph = terms[0] + "".join(joint + term for joint, term in zip(glue, terms[1:], strict=False))
        document = {"flow": {"graph": graph}, "pipes": {"p": "clean"}, "tasks": {"load": {"callable": "m:f"}}}
        source = yaml.safe_dump(document, default_style=style, width=width)
        pointing = [problem for problem in problems_of(source) if problem.value == "'laod'"]
        assert [text_at(source, problem)[:4] for problem in pointing] == ["laod"]
