"""Agent requests as a gateway sees them: their queue, their runs and what people ask of them."""
