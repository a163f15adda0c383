"""Hooks: deliveries of other systems, each with the proof of its sender, start runs."""
