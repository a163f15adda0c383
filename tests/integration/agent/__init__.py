"""Agent requests with a real worker, a real git and a scripted CLI."""
