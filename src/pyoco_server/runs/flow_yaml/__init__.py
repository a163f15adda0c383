"""Validation of flow.yaml: every problem with its line and column; no user code is imported.

source_map        an offset in a decoded text -> line and column of the file
yaml_problems     the list of problems
yaml_tree         bytes -> nodes with their line and column
yaml_values       nodes -> values of the expected type
nesting           how deep values may be nested (of JSON bodies as well)
yaml_tasks        the task declarations, and what `use:` resolves to
expression_check  references and expressions
graph_scan        the names and arguments of a graph
yaml_graph        the whole graph, checked by pyoco
flow_check        the file as a whole: `check_flow_yaml`
flow_order        the tasks of a built flow in order, and the links between them
"""

from pyoco_server.runs.flow_yaml.flow_check import CheckedFlow, check_flow_yaml
from pyoco_server.runs.flow_yaml.yaml_problems import did_you_mean
from pyoco_server.runs.flow_yaml.yaml_tasks import (
    OPTIONS,
    InputCheck,
    TaskDeclaration,
    is_callable_path,
    is_reference,
)

__all__ = [
    "OPTIONS",
    "CheckedFlow",
    "InputCheck",
    "TaskDeclaration",
    "check_flow_yaml",
    "did_you_mean",
    "is_callable_path",
    "is_reference",
]
