"""The tasks `use: pyoco/sleep`, `pyoco/signal` and `pyoco/event` of a flow.yaml."""

import pytest

from pyoco_server.errors import InvalidRequest
from pyoco_server.waits.human.human_task_yaml import check_submitted_flow


def flow(use: str, inputs: str) -> bytes:
    return f"flow: {{graph: a}}\ntasks:\n  a:\n    use: pyoco/{use}\n    inputs: {inputs}\n".encode()


@pytest.mark.parametrize(
    ("use", "inputs"),
    [
        ("sleep", "{seconds: 3600}"),
        ("sleep", "{seconds: 0.5}"),
        ("sleep", "{seconds: $ctx.params.pause}"),
        ("sleep", "{until: '2030-01-31T09:00:00Z'}"),
        ("sleep", "{until: 1900000000}"),
        ("signal", "{name: paid}"),
        ("signal", "{name: paid, timeout_sec: 60, default: null}"),
        ("event", "{name: order.paid, match: {/order/id: $ctx.params.order}, timeout_sec: 60}"),
        ("event", "{name: $ctx.params.event, match: $ctx.params.match}"),
    ],
)
def test_valid_inputs(use: str, inputs: str) -> None:
    assert check_submitted_flow(flow(use, inputs)).tasks["a"].use == f"pyoco/{use}"


@pytest.mark.parametrize(
    ("use", "inputs", "field", "message"),
    [
        ("sleep", "{}", "seconds", "expected either seconds or until"),
        ("sleep", "{seconds: 1, until: 1}", "until", "expected either seconds or until"),
        ("sleep", "{seconds: -1}", "seconds", "expected seconds, at least 0"),
        ("sleep", "{until: tomorrow}", "until", "expected unix seconds, a datetime with a time zone"),
        ("sleep", "{second: 1, seconds: 1}", "second", "not known; did you mean 'seconds'?"),
        ("signal", "{}", "name", "is missing; it is the name of the signal"),
        ("signal", "{name: a b}", "name", "expected a name of 1 to 100 letters"),
        ("signal", "{name: a, match: {}}", "match", "the inputs of pyoco/signal are name, timeout_sec"),
        ("event", "{name: a, timeout_sec: 0}", "timeout_sec", "expected seconds, more than 0"),
        ("event", "{name: a, match: {id: 1}}", "match", "JSON pointers such as '/order/id'"),
        ("event", "{name: a, match: [1]}", "match", "expected a dict of at most 20 JSON pointers"),
    ],
)
def test_an_invalid_input_is_named(use: str, inputs: str, field: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_submitted_flow(flow(use, inputs))
    [problem] = caught.value.problems
    assert problem.field == f"tasks.a.inputs.{field}"
    assert message in problem.message
    assert problem.line in (4, 5)
