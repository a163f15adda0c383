"""asyncio helpers: background tasks, deadlines, backoff."""
