"""Routes of workers, their flows and wheels."""
