"""Agent requests: changes that people ask for in a repository, and the flow that has a coding CLI make them."""
