"""The pages of the documentation: their code blocks, and following them."""
