"""flow.yaml as the server takes it: read within limits, checked with places, nothing imported.

source_map    a position in a decoded text -> line and column of the file
problems      everything that is wrong, collected
tree          bytes -> nodes that know their place
values        nodes -> values, each of the kind its field wants
tasks         the declarations, and what `use:` comes to
scan          the names and arguments of a graph, and where they are
expressions   operators without a bound
graph         the whole graph, checked by pyoco
policy        the file as a whole: `check_flow_yaml`
"""

from pyoco_server.runs.flow_yaml.policy import CheckedFlow, check_flow_yaml
from pyoco_server.runs.flow_yaml.yaml_problems import did_you_mean
from pyoco_server.runs.flow_yaml.yaml_tasks import InputCheck, TaskDeclaration, is_callable_path, is_reference

__all__ = [
    "CheckedFlow",
    "InputCheck",
    "TaskDeclaration",
    "check_flow_yaml",
    "did_you_mean",
    "is_callable_path",
    "is_reference",
]
