"""Agent requests: changes that people ask for, and the flow in which a coding CLI makes them."""
