"""Unit tests of waits: answers, questions."""
