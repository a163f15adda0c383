"""Commands of questions and signals."""
