"""Writes the generated parts of the reference pages: `make docs`."""
