"""What must hold in every simulation, whatever fails on the way."""
