"""Counts the pods of PodDisruptionBudgets, so that evictions (`kubectl drain`) know how many may go."""
