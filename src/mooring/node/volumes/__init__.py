"""Volumes on this node: what is recorded (`records`), what to do next (`decide`), and the manager that does
it."""
