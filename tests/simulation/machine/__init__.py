"""What a simulated process gets from its machine: clocks, random numbers, a disk."""
