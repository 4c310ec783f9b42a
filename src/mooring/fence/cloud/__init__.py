"""Fences by a cloud's own control plane."""
