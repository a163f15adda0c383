"""Answering a question at a terminal."""
