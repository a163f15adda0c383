"""Unit tests of what starts runs from outside."""
