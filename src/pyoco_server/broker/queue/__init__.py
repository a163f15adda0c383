"""The work queue: jobs, deliveries, consumers, queue depths."""
