"""Screenshots of every screen for people to look at: `make screenshots`. Not part of the suite."""
