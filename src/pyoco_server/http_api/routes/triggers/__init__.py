"""Routes of hooks and workflow events."""
