"""Stable identities: at most one pod for each, created and removed in order."""
