"""asyncio helpers: background loops, deadlines, backoff."""
