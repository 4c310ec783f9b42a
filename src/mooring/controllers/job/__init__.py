"""Jobs: pods that run to their end, a number of times."""
