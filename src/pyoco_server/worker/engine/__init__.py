"""One flow, executed by pyoco with a journal."""
