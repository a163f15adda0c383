"""Commands of what starts runs from outside: workflow events, their templates and actions, hooks."""
