"""The flow `agent_request`: from a request to a pushed branch."""
