"""What starts runs from outside: hooks of other systems and workflow events."""
