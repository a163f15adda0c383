"""How a failed schedule is shown: its story, and the shortest one that fails in the same way."""
