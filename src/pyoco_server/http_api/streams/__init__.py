"""Server-sent event streams and the routes that watch."""
