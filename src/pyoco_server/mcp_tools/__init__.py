"""The tools for agents (Model Context Protocol): one table, which both transports serve."""
