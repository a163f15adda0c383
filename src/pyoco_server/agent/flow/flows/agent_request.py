"""A coding CLI plans, implements, tests and pushes the change that a request asks for."""

from pyoco_server.agent.flow.request_flow import agent_request

__all__ = ["agent_request"]
