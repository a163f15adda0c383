"""Commands about workers, their flows and wheels."""
