"""The files of runs on the disk of a worker."""
