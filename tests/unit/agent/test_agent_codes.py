"""The codes of agent requests, and what the dashboard says about them."""

import re

from pyoco_server.agent.agent_errors import AgentCode
from tests.support.places import ROOT


def test_each_code_has_a_japanese_text_in_the_dashboard() -> None:
    table = (ROOT / "ui/src/api/agentCodes.ts").read_text(encoding="utf-8")
    assert set(re.findall(r"^  ([A-Z][A-Z_\d]+):", table, re.MULTILINE)) == set(AgentCode)
