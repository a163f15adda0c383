"""An index in an SQLite file: the file, its checkpoint, and the feed that fills it."""
