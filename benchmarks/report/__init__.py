"""The results of `make bench`: figures, targets, tables, the page and its picture."""
