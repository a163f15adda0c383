"""Command line: options, texts, forms."""
