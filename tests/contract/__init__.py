"""What others rely on, and what we rely on: documents, clients, private names of dependencies."""
