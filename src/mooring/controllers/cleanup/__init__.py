"""Garbage collection by owner references, and the deletion of namespaces: what the API server only marks."""
