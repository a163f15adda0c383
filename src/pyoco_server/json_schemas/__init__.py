"""Checks of values against JSON Schemas, without blocking: answers, params of runs, forms in a terminal."""
