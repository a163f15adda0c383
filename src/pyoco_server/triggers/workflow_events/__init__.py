"""Workflow events: templates, actions, the events themselves, their audit and retries."""
