"""The folder of flows of an agent's worker (`--flows`): it has this one flow."""

from pyoco_server.agent.flow.request_flow import agent_request

__all__ = ["agent_request"]
