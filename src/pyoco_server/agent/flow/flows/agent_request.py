"""Work on an agent request: plan it, implement and test each step, write the report, push the branch."""

from pyoco_server.agent.flow.request_flow import agent_request

__all__ = ["agent_request"]
