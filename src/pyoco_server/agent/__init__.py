"""Agent requests: what people want of a repository, and the flow in which a coding CLI does it."""
