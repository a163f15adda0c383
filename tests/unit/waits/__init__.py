"""Unit tests of waits: answers, schemas, questions."""
