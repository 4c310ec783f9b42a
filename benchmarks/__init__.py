"""Measurements that a sceptic can repeat: each prints ratios of two things measured in one run."""
