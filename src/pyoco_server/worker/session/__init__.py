"""A worker's slots, and one delivery from receipt to acknowledgement."""
