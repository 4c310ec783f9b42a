"""Garbage collection by owner references, and the deletion of namespaces, both of which the
API server only marks."""
