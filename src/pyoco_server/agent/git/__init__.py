"""Git in a worktree of its own, without hooks, prompts and configuration that executes code."""
