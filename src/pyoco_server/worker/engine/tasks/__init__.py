"""The call of one task: its context, what it changes, and the error that it raises."""
