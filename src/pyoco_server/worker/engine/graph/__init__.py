"""The graph of a flow: its shape, its expressions, and the order of its tasks."""
